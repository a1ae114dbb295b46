"use strict";
/* The stick of a drone: a velocity over the map, east, north and up, each from -1 to 1. */

const DIRECTIONS = {
  w: ["north", 1], arrowup: ["north", 1], s: ["north", -1], arrowdown: ["north", -1],
  d: ["east", 1], arrowright: ["east", 1], a: ["east", -1], arrowleft: ["east", -1],
  r: ["up", 1], f: ["up", -1],
};
const SLOWLY = 0.4; // of the velocity with Shift
const REST = { east: 0, north: 0, up: 0 };

class DroneStick extends Stick {
  /** changed(stick) */
  constructor(changed) {
    super(REST, DIRECTIONS, "Stick: where to fly on the map", changed);
    for (const [id, up] of [["up", 1], ["down", -1]]) {
      element(id).addEventListener("pointerdown", () => this.move({ up }));
      for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
        element(id).addEventListener(name, () => this.move({ up: 0 }));
      }
    }
  }

  turnByKeys() {
    const stick = { ...REST };
    for (const key of this.down) {
      const [axis, sign] = DIRECTIONS[key];
      stick[axis] = clamp(stick[axis] + sign * (this.gentle ? SLOWLY : 1), -1, 1);
    }
    this.move(stick);
  }

  poll() {
    const pad = this.gamepad();
    if (pad) this.moveByPad({ east: this.axis(pad, 0), north: -this.axis(pad, 1), up: -this.axis(pad, 3) });
  }

  touch(event, box) {
    const half = Math.min(box.width, box.height) / 2;
    const east = clamp((event.clientX - box.left - box.width / 2) / half, -1, 1);
    const north = clamp((box.top + box.height / 2 - event.clientY) / half, -1, 1);
    this.move({ east, north });
    this.place(0.5 + (east * half) / box.width, 0.5 - north / 2);
  }

  letGo() {
    this.move({ east: 0, north: 0 });
    this.place(0.5, 0.5);
  }
}
