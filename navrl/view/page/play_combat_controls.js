"use strict";
/* The stick of a fight: rudder, throttle and the trigger. */

const TURN_KEYS = { a: 1, arrowleft: 1, d: -1, arrowright: -1 }; // on the screen left is left: positive
const THRUST_KEYS = { w: 1, arrowup: 1, s: -1, arrowdown: -1 };
const HELD_KEYS = { ...TURN_KEYS, ...THRUST_KEYS };
const GENTLE = 0.5; // of the rudder with Shift
const THRUST_RATE = 0.9; // of the throttle per second

/* [key, what it does in CombatPlay.actions, words for the list, its name there]; without an action the stick has it */
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

class CombatStick extends Stick {
  /** changed(stick): something was moved; pressed(name): fire, target, pause, again. */
  constructor(changed, pressed) {
    const label = "Stick: left and right to turn, up and down for thrust";
    super({ rudder: 0, throttle: 1 }, HELD_KEYS, label, changed);
    this.pressed = pressed;
    this.buttons = []; // of the gamepad, whether each is down
    this.connectTrigger();
  }

  connectTrigger() {
    document.addEventListener("keydown", (event) => {
      if (![" ", "Enter"].includes(event.key) || !isForGame(event) || event.target.closest("button")) return;
      event.preventDefault();
      if (!event.repeat) this.pressed("fire");
    });
    element("fire").addEventListener("pointerdown", (event) => {
      event.preventDefault();
      this.pressed("fire");
    });
    element("fire").addEventListener("click", (event) => { if (event.detail === 0) this.pressed("fire"); });
    element("aim").addEventListener("click", () => this.pressed("target"));
  }

  turnByKeys() {
    this.move({ rudder: clamp(this.sum(TURN_KEYS) * (this.gentle ? GENTLE : 1), -1, 1) });
  }

  sum(keys) {
    return [...this.down].reduce((total, key) => total + (keys[key] || 0), 0);
  }

  /** step: seconds since the last picture. */
  poll(step) {
    this.thrust(Math.sign(this.sum(THRUST_KEYS)), step);
    const pad = this.gamepad();
    if (!pad) return;
    this.moveByPad({ rudder: clamp(-this.axis(pad, 0), -1, 1) });
    const value = (index) => (pad.buttons[index] ? pad.buttons[index].value : 0);
    this.thrust(value(7) - value(6) - this.axis(pad, 3), step);
    const names = { 0: "fire", 2: "target", 9: "pause", 3: "again" };
    for (const [index, name] of Object.entries(names)) {
      const isDown = value(index) > 0.5;
      if (isDown && !this.buttons[index]) this.pressed(name);
      this.buttons[index] = isDown;
    }
  }

  thrust(rate, step) {
    if (rate) this.move({ throttle: clamp(this.stick.throttle + rate * THRUST_RATE * step, 0, 1) });
  }

  touch(event, box) {
    const across = clamp((event.clientX - box.left) / box.width, 0, 1);
    const down = clamp((event.clientY - box.top) / box.height, 0, 1);
    const rudder = clamp((0.5 - across) * 2.4, -1, 1);
    this.move({ rudder: Math.abs(rudder) < 0.08 ? 0 : rudder, throttle: clamp(1.15 - down * 1.3, 0, 1) });
    this.place(across, down);
  }

  letGo() {
    this.move({ rudder: 0 });
    this.place(0.5, (1.15 - this.stick.throttle) / 1.3);
  }
}
