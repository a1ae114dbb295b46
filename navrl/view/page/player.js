"use strict";
/* The clock of a replay and everything that moves it. The scene decides the contents:
   scene.duration           of its time; after a change of these three call player.load()
   scene.marks              [{time, lane, kind, colour, label}] on the time line
   scene.bands              [{from, to, lane, colour}] below them
   scene.rhythm             how its time is counted: SECONDS, or another such object
   scene.speed              one of the rhythm's speeds, to begin with
   scene.keys               [[key, what it does, () => ..., name on the list]]; without a text it is not listed
   scene.draw(time, step)   draws the instant; step: seconds since the last picture, Infinity after a
                            jump; returns true to be called again
   An address that ends in #play plays from the start; a page that holds two replays so begins both at once. */

const SECONDS = {
  unit: "second",
  speeds: [0.25, 0.5, 1, 2, 4, 8, 16], // of the scene's time, per second
  spacings: [1, 2, 5, 10, 20, 60], // of a time axis
  speedText: (speed) => `${speed} x`,
  text: clockText,
  tick: (time) => `${time} s`,
  spoken: (time) => `${time.toFixed(1)} seconds`,
};
const PLAY_ICON = "M7 4v16l13-8z";
const PAUSE_ICON = "M6 4h4.5v16H6zM13.5 4H18v16h-4.5z";

class Player {
  constructor(scene) {
    this.scene = scene;
    this.time = 0;
    this.playing = false;
    this.jumped = true;
    this.pending = false;
    this.keys = [...this.ownKeys(), ...scene.keys];
    this.connectControls();
    this.connectKeys();
    this.connectTimeline();
    // The pictures, not the window: text beside them may take a line of their room.
    const resized = new ResizeObserver(() => this.show());
    for (const canvas of document.querySelectorAll("canvas")) resized.observe(canvas);
    this.setSpeed(scene.speed);
    this.show();
    window.addEventListener("hashchange", () => this.playAsAddressed());
    this.playAsAddressed();
  }

  // ---- the clock ----------------------------------------------------------------------------

  seek(time) {
    this.time = clamp(time, 0, this.scene.duration);
    this.jump();
  }

  jump() {
    this.jumped = true;
    this.show();
  }

  toggle() {
    if (!this.playing && this.time >= this.scene.duration) this.seek(0);
    this.playing = !this.playing;
    this.last = undefined;
    element("play-icon").setAttribute("d", this.playing ? PAUSE_ICON : PLAY_ICON);
    this.show();
  }

  playAsAddressed() {
    if (!window.location.hash.startsWith("#play") || window.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    this.seek(0);
    if (!this.playing) this.toggle();
  }

  setSpeed(speed) {
    this.speed = speed;
    element("speed").value = String(speed);
  }

  faster(steps) {
    const { speeds } = this.scene.rhythm;
    const index = speeds.indexOf(this.speed) + steps;
    this.setSpeed(speeds[clamp(index, 0, speeds.length - 1)]);
  }

  /** To the nearest mark after (1) or before (-1) this instant. */
  hop(direction) {
    const times = this.scene.marks.map((mark) => mark.time);
    const ahead = times.filter((time) => (time - this.time) * direction > 0.05);
    const nearest = Math.min(...ahead.map((time) => Math.abs(time - this.time)));
    if (ahead.length) this.seek(this.time + direction * nearest);
  }

  /** Ask for a picture; many requests make one. */
  show() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.pending = false;
    const step = this.last === undefined ? 0 : Math.min(0.1, (now - this.last) / 1000);
    this.last = now;
    if (this.playing) {
      this.time = Math.min(this.scene.duration, this.time + step * this.speed);
      if (this.time >= this.scene.duration) this.toggle();
    }
    const again = this.scene.draw(this.time, this.jumped ? Infinity : step);
    this.jumped = false;
    this.tell();
    if (this.playing || again) this.show();
    else this.last = undefined;
  }

  tell() {
    element("scrub").value = String(this.time);
    const { rhythm, duration } = this.scene;
    element("clock").textContent = `${rhythm.text(this.time)} / ${rhythm.text(duration)}`;
    const share = (100 * this.time) / duration;
    element("scrub").style.setProperty("--share", `${share}%`);
    element("scrub").setAttribute("aria-valuetext", rhythm.spoken(this.time));
  }

  // ---- mouse and fingers ----------------------------------------------------------------------

  connectControls() {
    const actions = {
      start: () => this.seek(0),
      previous: () => this.hop(-1),
      play: () => this.toggle(),
      next: () => this.hop(1),
      end: () => this.seek(this.scene.duration),
      "help-button": () => this.toggleHelp(),
      "help-close": () => this.toggleHelp(),
    };
    for (const [id, action] of Object.entries(actions)) element(id).addEventListener("click", action);
    const { speeds, speedText } = this.scene.rhythm;
    for (const speed of speeds) element("speed").add(new Option(speedText(speed), String(speed)));
    element("speed").addEventListener("change", (event) => this.setSpeed(Number(event.target.value)));
    // A clicked button would otherwise keep the space bar for itself.
    document.addEventListener("click", (event) => {
      const button = event.target.closest("button, select");
      if (button && event.detail > 0 && button.tagName === "BUTTON") button.blur();
    });
  }

  connectTimeline() {
    const scrub = element("scrub");
    scrub.addEventListener("input", () => this.seek(Number(scrub.value)));
    this.load();
  }

  /** Take over the contents of the scene after a change. */
  load() {
    const { duration, marks, bands } = this.scene;
    element("scrub").max = String(duration);
    element("tooltip").hidden = true;
    element("marks").replaceChildren(
      ...bands.map((band) => this.bandOf(band)), ...marks.map((mark) => this.markButton(mark)),
    );
    this.seek(this.time);
  }

  bandOf({ from, to, lane, colour }) {
    const band = document.createElement("span");
    band.className = "band";
    band.style.left = `${(100 * from) / this.scene.duration}%`;
    band.style.width = `${(100 * (to - from)) / this.scene.duration}%`;
    band.style.setProperty("--lane", lane);
    band.style.background = colour;
    return band;
  }

  markButton(mark) {
    const button = document.createElement("button");
    button.className = `mark ${mark.kind}`;
    button.style.left = `${(100 * mark.time) / this.scene.duration}%`;
    button.style.setProperty("--lane", mark.lane);
    button.style.color = mark.colour;
    const label = `${this.scene.rhythm.text(mark.time)}  ${mark.label}`;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", () => this.seek(mark.time));
    for (const name of ["pointerenter", "focus"]) {
      button.addEventListener(name, () => this.showTooltip(button, label));
    }
    for (const name of ["pointerleave", "blur"]) {
      button.addEventListener(name, () => { element("tooltip").hidden = true; });
    }
    return button;
  }

  showTooltip(button, text) {
    const tooltip = element("tooltip");
    tooltip.textContent = text;
    tooltip.hidden = false;
    const box = button.getBoundingClientRect();
    const half = tooltip.offsetWidth / 2;
    const middle = clamp(box.left + box.width / 2, half + 8, window.innerWidth - half - 8);
    tooltip.style.left = `${middle - half}px`;
    tooltip.style.top = `${box.top - tooltip.offsetHeight - 8}px`;
  }

  // ---- keyboard -------------------------------------------------------------------------------

  ownKeys() {
    const back = (event) => this.seek(this.time - stepOf(event));
    const ahead = (event) => this.seek(this.time + stepOf(event));
    const { unit } = this.scene.rhythm;
    return [
      [" ", "play or pause", () => this.toggle(), "space"],
      ["ArrowLeft", `one ${unit} back (Shift: five)`, back, "\u2190"],
      ["ArrowRight", `one ${unit} ahead (Shift: five)`, ahead, "\u2192"],
      ["Home", "to the start", () => this.seek(0)],
      ["End", "to the end", () => this.seek(this.scene.duration)],
      ["+", "faster", () => this.faster(1)],
      ["-", "slower", () => this.faster(-1)],
      ["[", "previous event", () => this.hop(-1)],
      ["]", "next event", () => this.hop(1)],
      ["?", "this list", () => this.toggleHelp()],
    ];
  }

  connectKeys() {
    const aliases = { "=": "+", _: "-", Spacebar: " " };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const key = aliases[event.key] || event.key;
      const found = this.keys.find(([name]) => name === key || name === key.toLowerCase());
      const own = event.target.closest("button, select, dialog");
      if (!found || (own && (key === " " || own.tagName !== "BUTTON") && key !== "?")) return;
      event.preventDefault();
      found[2](event);
    });
    this.listKeys();
  }

  listKeys() {
    for (const [key, text, , name] of this.keys) {
      if (!text) continue;
      const term = document.createElement("dt");
      term.textContent = name || (key.length === 1 ? key.toUpperCase() : key);
      const meaning = document.createElement("dd");
      meaning.textContent = text;
      element("keys").append(term, meaning);
    }
  }

  toggleHelp() {
    const help = element("help");
    if (help.open) help.close();
    else help.showModal();
  }
}

function stepOf(event) {
  return event.shiftKey ? 5 : 1;
}
