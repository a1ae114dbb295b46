"use strict";
/* A recorded episode of any world as a scene for the player: its picture, and numbers over time. */

const DARK = { ...THEME, danger: "#ff5d73", obstacle: "#6f869c" };
const BRIGHT = { ...DARK, ...LIGHT, danger: "#d0263f", obstacle: "#8494a5" };
const STEPS = {
  unit: "step",
  speeds: [1, 2, 5, 10, 20, 50, 100, 200],
  spacings: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
  speedText: (speed) => `${speed} / s`,
  text: (time) => String(Math.floor(time + 1e-6)),
  tick: String,
  spoken: (time) => `step ${Math.floor(time + 1e-6)}`,
};
const WATCHED_S = 12; // an episode lasts about that long, to begin with
const ROW = 84; // pixels, the least height of a chart with the room above it
const MOST_WORDS = 6; // lines whose values are written out

class WorldScene {
  constructor(data) {
    this.data = data;
    this.duration = data.steps;
    this.rhythm = STEPS;
    this.speed = STEPS.speeds.find((speed) => speed >= data.steps / WATCHED_S) || STEPS.speeds[STEPS.speeds.length - 1];
    this.bands = [];
    Object.assign(this, { redraw: () => {}, seek: () => {} });
    this.shapes = data.shapes.map((raw) => new Shape(raw, data.unit));
    this.curves = data.curves.map(curveOf);
    this.steps = Array.from({ length: data.steps + 1 }, (_, step) => step);
    this.followTheme();
    this.marks = data.marks.map(({ step, label }) => ({
      time: step, lane: 1, kind: "hit", colour: "var(--text)", label,
    }));
    this.charts = new Charts(element("charts-view"), (time) => this.seek(Math.round(time)));
    this.picture = this.shapes.length
      ? new Picture(element("top-view"), this.shapes, this.duration, () => this.redraw()) : null;
    this.keys = this.picture ? [["f", "show everything", () => this.picture.plane.release()]] : [];
    element("fit").addEventListener("click", () => this.picture.plane.release());
    this.introduce();
  }

  followTheme() {
    const light = window.matchMedia("(prefers-color-scheme: light)");
    const follow = () => {
      Object.assign(THEME, light.matches ? BRIGHT : DARK);
      this.writeSigns();
      this.redraw();
    };
    light.addEventListener("change", follow);
    follow();
  }

  /** The legend. */
  writeSigns() {
    element("signs").replaceChildren(...this.shapes.filter(({ label }) => label).map((shape) => {
      const span = document.createElement("span");
      span.textContent = shape.label;
      span.className = shape.kind === "Circle" ? "disc" : "";
      span.style.setProperty("--tone", shape.ownColour() ?? THEME.muted);
      return span;
    }));
  }

  introduce() {
    const { data } = this;
    document.title = data.title;
    for (const id of ["title", "subtitle", "outcome"]) element(id).textContent = data[id];
    element("banner").textContent = data.outcome;
    document.body.classList.toggle("numbers", !this.picture);
    element("charts-view").style.minHeight = `${this.curves.length * ROW + CHART_EDGE.bottom}px`;
  }

  draw(time, step) {
    const moving = this.picture ? this.picture.draw(time, step) : false;
    this.charts.draw({
      t: this.steps, duration: this.duration, time, bands: [], rows: this.curves.map((curve) => rowAt(curve, time)),
    }, STEPS);
    element("banner").hidden = time < this.duration - 0.01;
    return moving;
  }
}

/** A curve of the data with the bounds of its chart. */
function curveOf(raw) {
  const values = raw.lines.flat().filter((value) => value !== null);
  let low = values.reduce((a, b) => Math.min(a, b), Infinity);
  let high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!(low <= high)) [low, high] = [0, 1];
  if (low > 0 && low < 0.5 * high) low = 0;
  if (high < 0 && high > 0.5 * low) high = 0;
  if (low === high) [low, high] = low === 0 ? [0, 1] : [Math.min(0, 2 * low), Math.max(0, 2 * high)];
  return { ...raw, low, high };
}

function rowAt(curve, time) {
  const step = Math.floor(time + 1e-6);
  const many = curve.lines.length > 1;
  const lines = curve.lines.map((values, index) => ({
    values, now: valueNow(values, time), value: values[step], colour: toneOf(index),
  }));
  const written = lines.length <= MOST_WORDS ? lines : [];
  const words = written.map(({ value, colour }, index) => ({
    text: `${curve.labels[index]} ${valueText(value)}`.trim(), colour: many ? colour : THEME.text,
  }));
  if (curve.leftOut) words.push({ text: `the first ${lines.length} of ${lines.length + curve.leftOut}`, colour: THEME.muted });
  const { name, low, high } = curve;
  return { name, low, high, words, lines, limits: [], colour: many ? THEME.text : toneOf(0) };
}

/** Between two steps, or at the nearer one if the other has no value. */
function valueNow(values, time) {
  const [before, after] = [valueAt(values, Math.floor(time)), valueAt(values, Math.ceil(time))];
  if (before === null || after === null) return time === Math.floor(time) ? before : after;
  return mix(before, after, time - Math.floor(time));
}

function valueText(value) {
  if (value === null) return "\u2013";
  const size = Math.abs(value);
  if (size >= 100_000 || (size > 0 && size < 0.001)) return value.toExponential(1);
  return size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

const scene = new WorldScene(JSON.parse(element("data").textContent));
const player = new Player(scene);
scene.redraw = () => player.show();
scene.seek = (time) => player.seek(time);
