"use strict";
/* Keyboard, fingers and a gamepad as a velocity over the map: east, north and up, each from -1 to 1. */

const DIRECTIONS = {
  w: ["north", 1], arrowup: ["north", 1], s: ["north", -1], arrowdown: ["north", -1],
  d: ["east", 1], arrowright: ["east", 1], a: ["east", -1], arrowleft: ["east", -1],
  r: ["up", 1], f: ["up", -1],
};
const SLOWLY = 0.4; // of the velocity with Shift
const DEAD = 0.14; // of a gamepad's stick around its middle

class DroneControls {
  /** changed(stick) */
  constructor(changed) {
    this.changed = changed;
    this.down = new Set();
    this.slowly = false;
    this.usesPad = false;
    this.stick = { east: 0, north: 0, up: 0 };
    document.addEventListener("keydown", (event) => this.key(event, true));
    document.addEventListener("keyup", (event) => this.key(event, false));
    window.addEventListener("blur", () => this.release());
    this.connectTouch();
  }

  release() {
    this.down.clear();
    this.turnByKeys();
  }

  key(event, isDown) {
    const key = event.key.toLowerCase();
    if (isDown && (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("dialog, select"))) return;
    if (key === "shift") this.slowly = isDown;
    else if (!(key in DIRECTIONS)) return;
    else if (isDown) this.down.add(key);
    else this.down.delete(key);
    if (isDown && key !== "shift") event.preventDefault();
    this.turnByKeys();
  }

  turnByKeys() {
    const stick = { east: 0, north: 0, up: 0 };
    for (const key of this.down) {
      const [axis, sign] = DIRECTIONS[key];
      stick[axis] = clamp(stick[axis] + sign * (this.slowly ? SLOWLY : 1), -1, 1);
    }
    this.move(stick);
  }

  move(change) {
    const before = JSON.stringify(this.stick);
    Object.assign(this.stick, change);
    if (JSON.stringify(this.stick) !== before) this.changed(this.stick);
  }

  /** A gamepad says nothing by itself. */
  poll() {
    const pad = (navigator.getGamepads ? [...navigator.getGamepads()] : []).find((each) => each && each.connected);
    if (!pad) return;
    const axis = (index) => (Math.abs(pad.axes[index] || 0) < DEAD ? 0 : pad.axes[index]);
    const stick = { east: axis(0), north: -axis(1), up: -axis(3) };
    const moved = Object.values(stick).some((value) => value !== 0);
    if (moved || this.usesPad) this.move(stick);
    this.usesPad = moved;
  }

  connectTouch() {
    const pad = element("pad");
    const touch = matchMedia("(pointer: coarse)");
    const show = () => { element("touch").hidden = !touch.matches; };
    touch.addEventListener("change", show);
    show();
    const follow = (event) => {
      const box = pad.getBoundingClientRect();
      const half = Math.min(box.width, box.height) / 2;
      const east = clamp((event.clientX - box.left - box.width / 2) / half, -1, 1);
      const north = clamp((box.top + box.height / 2 - event.clientY) / half, -1, 1);
      this.move({ east, north });
      this.place(50 + (50 * east * half) / (box.width / 2), 50 - 50 * north);
    };
    pad.addEventListener("pointerdown", (event) => {
      pad.setPointerCapture(event.pointerId);
      follow(event);
    });
    pad.addEventListener("pointermove", (event) => { if (pad.hasPointerCapture(event.pointerId)) follow(event); });
    for (const name of ["pointerup", "pointercancel"]) {
      pad.addEventListener(name, () => {
        this.move({ east: 0, north: 0 });
        this.place(50, 50);
      });
    }
    for (const [id, up] of [["up", 1], ["down", -1]]) {
      element(id).addEventListener("pointerdown", () => this.move({ up }));
      for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
        element(id).addEventListener(name, () => this.move({ up: 0 }));
      }
    }
  }

  place(across, down) {
    element("knob").style.left = `${across}%`;
    element("knob").style.top = `${down}%`;
  }
}
