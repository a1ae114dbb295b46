"use strict";
/* The stick of a player: keyboard, fingers and a gamepad. The last that was moved counts. */

const DEAD = 0.14; // of a gamepad's stick around its middle

class Stick {
  /** start: the axes at rest; keys: {key: ...} of those that are held; label: of the pad for fingers;
      changed(axes): something was moved. A stick adds turnByKeys(), poll(step), touch(event, box), letGo(). */
  constructor(start, keys, label, changed) {
    this.start = start;
    this.stick = { ...start };
    this.keys = keys;
    this.changed = changed;
    this.down = new Set();
    this.gentle = false; // Shift
    this.usesPad = false;
    document.addEventListener("keydown", (event) => this.key(event, true));
    document.addEventListener("keyup", (event) => this.key(event, false));
    window.addEventListener("blur", () => this.release());
    this.connectTouch(label);
  }

  reset() {
    this.stick = { ...this.start };
    this.release();
  }

  release() {
    this.down.clear();
    this.gentle = false;
    this.turnByKeys();
  }

  move(change) {
    const before = this.stick;
    this.stick = { ...before, ...change };
    if (Object.keys(change).some((axis) => before[axis] !== change[axis])) this.changed(this.stick);
  }

  key(event, isDown) {
    const key = event.key.toLowerCase();
    if (isDown && !isForGame(event)) return;
    if (key === "shift") this.gentle = isDown;
    else if (!(key in this.keys)) return;
    else if (isDown) this.down.add(key);
    else this.down.delete(key);
    if (isDown && key !== "shift") event.preventDefault();
    this.turnByKeys();
  }

  // ---- gamepad ------------------------------------------------------------------------------------

  gamepad() {
    return (navigator.getGamepads ? [...navigator.getGamepads()] : []).find((each) => each && each.connected);
  }

  axis(pad, index) {
    return Math.abs(pad.axes[index] || 0) < DEAD ? 0 : pad.axes[index];
  }

  /** A gamepad at rest moves nothing but what it moved itself. */
  moveByPad(change) {
    const moved = Object.values(change).some((value) => value !== 0);
    if (moved || this.usesPad) this.move(change);
    this.usesPad = moved;
  }

  // ---- fingers ------------------------------------------------------------------------------------

  connectTouch(label) {
    const pad = element("pad");
    pad.setAttribute("aria-label", label);
    const touch = matchMedia("(pointer: coarse)");
    const show = () => { element("touch").hidden = !touch.matches; };
    touch.addEventListener("change", show);
    show();
    const follow = (event) => this.touch(event, pad.getBoundingClientRect());
    pad.addEventListener("pointerdown", (event) => {
      pad.setPointerCapture(event.pointerId);
      follow(event);
    });
    pad.addEventListener("pointermove", (event) => { if (pad.hasPointerCapture(event.pointerId)) follow(event); });
    for (const name of ["pointerup", "pointercancel"]) pad.addEventListener(name, () => this.letGo());
  }

  /** Show the knob at these shares of the pad. */
  place(across, down) {
    element("knob").style.left = `${100 * across}%`;
    element("knob").style.top = `${100 * down}%`;
  }
}

/** Whether a key is the game's: none of the browser, of a dialog or of a choice. */
function isForGame(event) {
  return !(event.ctrlKey || event.metaKey || event.altKey || event.target.closest("dialog, select"));
}
