"use strict";
/* Keyboard, fingers and a gamepad, as one stick. The last that was moved counts. */

const TURN_KEYS = { a: 1, arrowleft: 1, d: -1, arrowright: -1 }; // on the screen left is left: positive
const THRUST_KEYS = { w: 1, arrowup: 1, s: -1, arrowdown: -1 };
const GENTLE = 0.5; // of the rudder with Shift
const THRUST_RATE = 0.9; // of the throttle per second
const DEAD = 0.14; // of a gamepad's stick around its middle

/* [key, what it does in Play.press, words for the list, its name there]; without an action the stick has it */
const KEYS = [
  ["a", null, "turn left", "A or \u2190"], ["d", null, "turn right", "D or \u2192"],
  ["shift", null, "turn gently, which costs less speed", "Shift"],
  ["w", null, "more thrust", "W or \u2191"], ["s", null, "less thrust", "S or \u2193"],
  [" ", null, "fire", "space"],
  ["tab", "target", "the next target", "Tab"],
  ["p", "pause", "pause or go on"], ["n", "again", "the same again"], ["escape", "menu", "menu", "Esc"],
  ["-", "slower", "slower"], ["+", "faster", "faster"],
  ["g", "whose", "whose graph"], ["v", "reach", "escape lines and reach on the map"],
  ["f", "fit", "show everybody on the map"],
  ["q", "left", "turn the graph left"], ["e", "right", "turn the graph right"], ["0", "reset", "turn the graph back"],
  ["m", "sound", "sound"], ["?", "help", "this list"],
];

class Controls {
  /** changed(stick): something was moved; pressed(name): fire, target, pause, again. */
  constructor(changed, pressed) {
    this.changed = changed;
    this.pressed = pressed;
    this.down = new Set();
    this.gentle = false;
    this.stick = { rudder: 0, throttle: 1 };
    this.buttons = [];
    this.usesPad = false;
    this.connectKeys();
    this.connectTouch();
    window.addEventListener("blur", () => this.release());
  }

  reset() {
    this.stick = { rudder: 0, throttle: 1 };
    this.release();
  }

  release() {
    this.down.clear();
    this.turnByKeys();
  }

  move(change) {
    const before = { ...this.stick };
    Object.assign(this.stick, change);
    if (before.rudder !== this.stick.rudder || before.throttle !== this.stick.throttle) this.changed(this.stick);
  }

  // ---- keyboard -----------------------------------------------------------------------------------

  connectKeys() {
    document.addEventListener("keydown", (event) => {
      const key = event.key.toLowerCase();
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("dialog, select, input")) return;
      if (key === "shift") this.gentle = true;
      else if (key in TURN_KEYS || key in THRUST_KEYS) this.down.add(key);
      else if (key === " " || key === "enter") {
        if (event.target.closest("button")) return;
        if (!event.repeat) this.pressed("fire");
      } else return;
      if (key !== "shift") event.preventDefault();
      this.turnByKeys();
    });
    document.addEventListener("keyup", (event) => {
      const key = event.key.toLowerCase();
      if (key === "shift") this.gentle = false;
      this.down.delete(key);
      if (key === "shift" || key in TURN_KEYS) this.turnByKeys();
    });
  }

  turnByKeys() {
    const turn = this.sum(TURN_KEYS) * (this.gentle ? GENTLE : 1);
    this.move({ rudder: clamp(turn, -1, 1) });
  }

  sum(keys) {
    return [...this.down].reduce((total, key) => total + (keys[key] || 0), 0);
  }

  // ---- every picture ------------------------------------------------------------------------------

  /** step: seconds since the last picture. */
  poll(step) {
    const thrust = Math.sign(this.sum(THRUST_KEYS));
    if (thrust) this.move({ throttle: clamp(this.stick.throttle + thrust * THRUST_RATE * step, 0, 1) });
    this.pollPad(step);
  }

  pollPad(step) {
    const pad = (navigator.getGamepads ? [...navigator.getGamepads()] : []).find((each) => each && each.connected);
    if (!pad) return;
    const axis = (index) => (Math.abs(pad.axes[index] || 0) < DEAD ? 0 : pad.axes[index]);
    const turn = -axis(0);
    if (turn || this.usesPad) this.move({ rudder: clamp(turn, -1, 1) });
    this.usesPad = turn !== 0;
    const value = (index) => (pad.buttons[index] ? pad.buttons[index].value : 0);
    const thrust = value(7) - value(6) - axis(3);
    if (thrust) this.move({ throttle: clamp(this.stick.throttle + thrust * THRUST_RATE * step, 0, 1) });
    const names = { 0: "fire", 2: "target", 9: "pause", 3: "again" };
    for (const [index, name] of Object.entries(names)) {
      const isDown = value(index) > 0.5;
      if (isDown && !this.buttons[index]) this.pressed(name);
      this.buttons[index] = isDown;
    }
  }

  // ---- fingers ------------------------------------------------------------------------------------

  connectTouch() {
    const pad = element("pad");
    const touch = matchMedia("(pointer: coarse)");
    const show = () => { element("touch").hidden = !touch.matches; };
    touch.addEventListener("change", show);
    show();
    const follow = (event) => {
      const box = pad.getBoundingClientRect();
      const across = clamp((event.clientX - box.left) / box.width, 0, 1);
      const down = clamp((event.clientY - box.top) / box.height, 0, 1);
      const rudder = clamp((0.5 - across) * 2.4, -1, 1);
      this.move({ rudder: Math.abs(rudder) < 0.08 ? 0 : rudder, throttle: clamp(1.15 - down * 1.3, 0, 1) });
      this.place(across, down);
    };
    pad.addEventListener("pointerdown", (event) => {
      pad.setPointerCapture(event.pointerId);
      follow(event);
    });
    pad.addEventListener("pointermove", (event) => { if (pad.hasPointerCapture(event.pointerId)) follow(event); });
    for (const name of ["pointerup", "pointercancel"]) {
      pad.addEventListener(name, () => {
        this.move({ rudder: 0 });
        this.place(0.5, (1.15 - this.stick.throttle) / 1.3);
      });
    }
    element("fire").addEventListener("pointerdown", (event) => {
      event.preventDefault();
      this.pressed("fire");
    });
    element("fire").addEventListener("click", (event) => { if (event.detail === 0) this.pressed("fire"); });
    element("aim").addEventListener("click", () => this.pressed("target"));
  }

  place(across, down) {
    element("knob").style.left = `${100 * across}%`;
    element("knob").style.top = `${100 * down}%`;
  }
}
