"use strict";
/* A chart in SVG, the same on every page: lines with intervals, parts on top of each other, or points; with
   zoom, smoothing, a logarithmic axis, a legend that switches lines, values under pointer and keys. */

const HEIGHT = 212;
const EDGE = { left: 50, right: 14, top: 20, bottom: 34 };
const FEW = 8; // values of a line that are drawn as dots too
const SPARSE = 3; // and so are those of a line that has a value at every third place only
const INSET = 8; // pixels between the ends of an axis and points on it
const CHART_HELP = "arrow keys: values; + and -: zoom; shift and arrow keys: move; Escape: everything; l: logarithmic";

/** A value that several charts share and are told of. */
class Shared {
  constructor(value) {
    this.value = value;
    this.watchers = [];
  }

  set(value) {
    this.value = value;
    for (const watcher of this.watchers) watcher();
  }
}

/* plot: {title, unit, kind, across, up, lines, points, settled}
   kind: "lines", "stack" (shares of one) or "sum" (parts of a whole); across: {label, values}, or for lines and points
   with an x of their own {label, low, high, log, choices}; up: by default what is to be seen, or {low, high, log, choices};
   lines: {label, colour, mean, x, low, high, each, pale, width}, where x, low, high and each may be missing;
   points: {x, y, colour, hollow, text}; settled: the first value of a line that counts for the range of the axis. */
class Chart {
  static pointed = null; // the chart whose values were shown last

  /** shared: {zoom, smoothing} of several charts; each is a Shared. */
  constructor(plot, shared = {}) {
    this.zoom = shared.zoom ?? new Shared(null); // [from, to]
    this.smoothing = shared.smoothing ?? new Shared(0);
    this.hidden = new Set(); // labels of lines
    Object.assign(this, { logarithmic: false, full: false, cursor: null, dragged: null });
    this.caption = made("span", "");
    this.tools = made("span", "tools");
    this.room = made("div", "chart");
    this.legend = made("div", "legend");
    this.node = made("figure", "card", made("figcaption", "", this.caption, this.tools), this.room, this.legend);
    this.update(plot);
    listenToChart(this);
    for (const each of [this.zoom, this.smoothing]) each.watchers.push(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.room);
  }

  /** Show new data; zoom, cursor, axis and lines that are switched off stay. */
  update(plot) {
    this.plot = { kind: "lines", lines: [], points: [], settled: 0, up: null, unit: "", ...plot };
    this.caption.textContent = plot.title;
    if (plot.hint) this.caption.append(made("span", "same", plot.hint));
    this.room.setAttribute("aria-label", `${plot.title}; ${CHART_HELP}`);
    this.legend.replaceChildren(...this.keys());
    this.draw();
  }

  keys() {
    const named = this.plot.lines.filter((line) => line.label);
    return named.length < 2 && !this.plot.named ? [] : named.map((line) => {
  const node = button(line.label, "show or hide", !this.hidden.has(line.label), () => {
        if (!this.hidden.delete(line.label)) this.hidden.add(line.label);
        node.setAttribute("aria-pressed", String(!this.hidden.has(line.label)));
        this.draw();
      });
      node.className = line.pale ? "key pale" : "key";
      node.style.setProperty("--tone", line.colour);
      return node;
    });
  }

  /** The lines as they are drawn: smoothed; parts lie on those before them, shares add up to one. */
  layers() {
    const { kind, across, lines } = this.plot;
    const weight = this.smoothing.value;
    const shown = lines.filter((line) => !this.hidden.has(line.label));
    const smooth = (line, values) => (values && !line.x ? smoothed(values, weight) : values);
    const found = shown.map((line) => ({
      line, x: line.x ?? across.values, mean: smooth(line, line.mean), low: smooth(line, line.low), high: smooth(line, line.high),
    }));
    if (kind === "lines") return found.map((layer) => ({ ...layer, top: layer.mean }));
    const whole = across.values.map((_, at) => found.reduce((sum, { mean }) => sum + (mean[at] ?? 0), 0));
    let base = across.values.map(() => 0);
    return found.map((layer) => {
      const top = base.map((from, at) => (whole[at] ? from + (layer.mean[at] ?? 0) / (kind === "stack" ? whole[at] : 1) : null));
      const part = { ...layer, top, base };
      base = top.map((value) => value ?? 0);
      return part;
    });
  }

  /** The range of the axis across: all of it, or what is zoomed into. */
  acrossRange() {
    const { across } = this.plot;
    if (across.choices) return across;
    const range = across.values ? { low: 0, high: across.values[across.values.length - 1] } : across;
    return this.zoom.value ? { ...range, low: this.zoom.value[0], high: this.zoom.value[1] } : range;
  }

  /** The range of the axis up: of what is to be seen, without first values that dwarf the rest. */
  upRange(layers, across) {
    const { kind, up, points, settled } = this.plot;
    this.leftOut = null;
    if (up) return up;
    if (kind === "stack") return { low: 0, high: 1 };
    const inside = (x) => across.choices || (x >= across.low && x <= across.high);
    const values = (from) => {
      const found = kind === "sum" ? [0] : points.filter(({ x }) => inside(x)).map(({ y }) => y);
      for (const { line, x, top } of layers) {
        for (const one of [top, ...(line.each ?? [])]) found.push(...one.filter((value, at) => isKnown(value) && at >= from && inside(x[at])));
      }
      return found;
    };
    const all = values(0);
    const rest = this.full || !settled ? all : values(settled);
    const kept = rest.length ? rest : all;
    const far = all.filter((value) => value > highest(kept) || value < lowest(kept));
    if (far.length) this.leftOut = far.reduce((most, value) => (Math.abs(value) > Math.abs(most) ? value : most));
    const ends = layers.flatMap(({ x, low, high }) => [low, high].flatMap((end) => (end ?? []).filter((value, at) => isKnown(value) && at >= settled && inside(x[at]))));
    this.positive = kept.length > 0 && lowest(all) > 0 && kind === "lines";
    return this.logarithmic && this.positive ? aroundLog(kept) : around(kept, kind === "lines" ? ends : []);
  }

  draw() {
    const width = this.room.clientWidth;
    if (!width) return; // in a closed fold
    const layers = this.layers();
    const acrossRange = this.acrossRange();
    this.positive = false;
    const upRange = this.upRange(layers, acrossRange);
    const inset = this.plot.across.values ? 0 : INSET;
    const left = EDGE.left + inset;
    const [span, rise] = [width - left - EDGE.right - inset, HEIGHT - EDGE.top - EDGE.bottom];
    const across = axisOf(acrossRange, span > 420 ? 6 : 4, this.plot.across.values ? countText : numberText);
    const up = axisOf(upRange, 4);
    const x = (value) => left + across.place(value) * span;
    const y = (value) => EDGE.top + (1 - up.place(value)) * rise;
    this.drawn = { layers, x, y, left, span };
    const svg = drawn("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}` });
    this.svg = svg;
    this.drawAxes(across, up, width);
    const inside = drawn("svg", { x: left, y: EDGE.top, width: span, height: rise, viewBox: `${left} ${EDGE.top} ${span} ${rise}` });
    for (const layer of layers) inside.append(...this.marks(layer, x, y));
    svg.append(inside);
    for (const point of this.plot.points) svg.append(pointOf(point, x(point.x), y(point.y)));
    if (this.leftOut !== null) {
      svg.append(drawn("text", { class: "note", x: width - EDGE.right, y: EDGE.top - 7 }, `first values, up to ${numberText(this.leftOut)}, are cut off`));
    }
    this.line = drawn("line", { class: "cursor", y1: EDGE.top, y2: HEIGHT - EDGE.bottom, visibility: "hidden" });
    this.selection = drawn("rect", { class: "selection", y: EDGE.top, height: rise, visibility: "hidden" });
    svg.append(this.line, this.selection);
    this.room.replaceChildren(svg);
    this.showTools();
    if (this.cursor) this.point(this.cursor);
  }

  drawAxes(across, up, width) {
    const { svg } = this;
    const { unit, across: { label } } = this.plot;
    const bottom = HEIGHT - EDGE.bottom;
    for (const [place, text] of up.marks) {
      const at = EDGE.top + (1 - place) * (bottom - EDGE.top);
      svg.append(drawn("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: at, y2: at }));
      svg.append(drawn("text", { class: "left", x: EDGE.left - 7, y: at + 4 }, text));
    }
    for (const [place, text] of across.marks) {
      svg.append(drawn("text", { class: "below", x: this.drawn.left + place * this.drawn.span, y: bottom + 14 }, text));
    }
    svg.append(drawn("text", { class: "unit", x: 2, y: EDGE.top - 8 }, unit));
    svg.append(drawn("text", { class: "below axis", x: this.drawn.left + this.drawn.span / 2, y: HEIGHT - 4 }, label));
  }

  /** The elements of one line. */
  marks({ line, x: own, top, base, low, high }, toX, y) {
    const x = (at) => toX(own[at]);
    const paint = (kind, name, attributes, property) => {
      const node = drawn(kind, { class: line.pale ? `${name} pale` : name, ...attributes });
      node.style.setProperty(property, line.colour);
      return node;
    };
    if (base) return [paint("path", "part", { d: areaOf(base, top, x, y) }, "fill")];
    const parts = low ? [paint("path", "band", { d: areaOf(low, high, x, y) }, "fill")] : [];
    for (const run of line.each ?? []) parts.push(paint("path", "single", { d: pathOf(run, x, y) }, "stroke"));
    if (top !== line.mean) parts.push(paint("path", "single", { d: pathOf(line.mean, x, y) }, "stroke"));
    const path = paint("path", "mean", { d: pathOf(top, x, y) }, "stroke");
    if (line.width) path.style.strokeWidth = line.width;
    const known = [...top.keys()].filter((at) => isKnown(top[at]));
    const dots = !line.x && (known.length <= FEW || known.length * SPARSE <= top.length) ? known : [];
    return [...parts, path, ...dots.map((at) => paint("circle", "dot", { cx: x(at), cy: y(top[at]), r: 2.4 }, "fill"))];
  }

  /** Buttons that are of use now. */
  showTools() {
    const toggle = (key, text, title) => button(text, title, this[key], () => {
      this[key] = !this[key];
      this.draw();
      this.tools.querySelector(`[data-key="${key}"]`)?.focus();
    });
    const found = [];
    const add = (key, node) => {
      node.dataset.key = key;
      found.push(node);
    };
    if (this.leftOut !== null || this.full) add("full", toggle("full", "first values", "show the first values too, which dwarf the rest"));
    if (this.positive) add("logarithmic", toggle("logarithmic", "log", "logarithmic axis (l)"));
    add("save", button("SVG", "save this chart as a picture for papers", null, () => this.save()));
    this.tools.replaceChildren(...found);
  }

  /** Places to which pointer and keys can go: {at, x, y, rows()}, from left to right. */
  stops() {
    const { points, across } = this.plot;
    const { layers, x, y } = this.drawn;
    if (points.length) {
      return points.map((point) => ({ at: point, x: x(point.x), y: y(point.y), rows: () => [made("div", "", point.text)] })).sort((a, b) => a.x - b.x);
    }
    const range = this.acrossRange();
    return (across.values ?? []).flatMap((value, at) => {
      if (value < range.low || value > range.high || !layers.some(({ mean }) => isKnown(mean[at]))) return [];
      return [{ at: value, x: x(value), y: null, rows: () => [made("div", "when", `${countText(value)} ${across.label}`), ...layers.flatMap((layer) => rowOf(layer, at))] }];
    });
  }

  /** Show the values at a stop, or none. */
  point(wanted, event = null) {
    const stop = wanted && this.stops().find(({ at }) => at === wanted.at);
    this.cursor = stop ? wanted : null;
    if (!stop) {
      this.line.setAttribute("visibility", "hidden");
      if (!wanted || this.room.matches(":hover, :focus")) hideTip();
      return;
    }
    Chart.pointed = this;
    for (const name of ["x1", "x2"]) this.line.setAttribute(name, stop.x);
    this.line.setAttribute("visibility", stop.y === null ? "visible" : "hidden");
    const box = this.room.getBoundingClientRect();
    showTip(event ? event.clientX : box.left + stop.x, event ? event.clientY : box.top + (stop.y ?? EDGE.top), ...stop.rows());
  }

  /** Zoom by a factor around a place from 0 to 1 of the axis, and move by a share of it. */
  scaleAcross(factor, around = 0.5, move = 0) {
    const { across } = this.plot;
    if (across.choices) return;
    const whole = across.values ? { low: 0, high: across.values[across.values.length - 1] } : across;
    const all = axisOf(whole, 4);
    const now = this.acrossRange();
    const [from, to] = [all.place(now.low), all.place(now.high)];
    const least = across.values ? 3 / (across.values.length + 1) : 0.02;
    const size = clamp((to - from) * factor, Math.min(least, 1), 1);
    const start = clamp(from + (to - from) * (around + move) - size * around, 0, 1 - size);
    this.zoom.set(size >= 1 ? null : [all.value(start), all.value(start + size)]);
  }

  /** Write the chart with its title and legend as an SVG file in the light theme. */
  save() {
    const root = document.documentElement;
    const before = root.style.colorScheme;
    root.style.colorScheme = "light";
    const picture = savedPicture(this);
    root.style.colorScheme = before;
    const link = made("a", "");
    link.href = URL.createObjectURL(new Blob([picture], { type: "image/svg+xml" }));
    link.download = `${this.plot.title.replace(/[^\w.-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "") || "chart"}.svg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}

/** A line's label and its value with interval: here, or the nearest of a line that has fewer values. */
function rowOf({ line, x, mean, low, high }, here) {
  const known = [...mean.keys()].filter((at) => isKnown(mean[at]));
  if (!known.length || here < known[0] || here > known[known.length - 1]) return [];
  const at = known.reduce((best, each) => (Math.abs(each - here) < Math.abs(best - here) ? each : best));
  const text = intervalText(mean[at], low?.[at], high?.[at]);
  return [made("div", "row", marked(line.colour, line.label, line.pale), made("span", "", at === here ? text : `${text} at ${countText(x[at])}`))];
}

function pointOf({ colour, hollow }, x, y) {
  const node = drawn("circle", { class: hollow ? "trial hollow" : "trial", cx: x, cy: y, r: hollow ? 3 : 4 });
  node.style.setProperty("--tone", colour);
  return node;
}
