"use strict";
/* A chart in SVG: means with bands, single runs, or parts on top of each other; values under the pointer are shown. */

const HEIGHT = 190;
const EDGE = { left: 46, right: 18, top: 10, bottom: 22 };

/** 0.0123456 -> "0.0123"; thousands as counts. */
function numberText(value) {
  const size = Math.abs(value);
  if (size >= 999.5) return countText(value);
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

/** 1228800 -> "1.2M" */
function countText(value) {
  const units = ["", "k", "M", "G", "T"];
  let unit = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.5 && unit < units.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  return `${Number(rest.toPrecision(3))}${units[unit]}`;
}

/** Round numbers between the bounds, about as many as wanted. */
function ticks(low, high, wanted) {
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
  return found;
}

/** An SVG element with attributes. */
function drawn(kind, attributes, ...inside) {
  const node = document.createElementNS(element("blank").namespaceURI, kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...inside);
  return node;
}

/** The lines as they are drawn: parts lie on those before them, shares add up to one. */
function layers(chart, shown) {
  const lines = chart.lines.filter((_, index) => shown[index]);
  if (chart.kind === "lines") return lines.map((line) => ({ line, top: line.mean, base: null }));
  const whole = REPORT.frames.map((_, at) => lines.reduce((sum, line) => sum + (line.mean[at] ?? 0), 0));
  const unit = chart.kind === "stack" ? whole.map((sum) => sum || 1) : whole.map(() => 1);
  let base = REPORT.frames.map(() => 0);
  return lines.map((line) => {
    const top = base.map((from, at) => (whole[at] ? from + (line.mean[at] ?? 0) / unit[at] : null));
    const layer = { line, top, base };
    base = top.map((value) => value ?? 0);
    return layer;
  });
}

/** Lowest and highest number that is to be seen. */
function bounds(chart, found) {
  if (chart.kind === "stack") return [0, 1];
  const values = chart.kind === "sum" ? [0] : [];
  for (const { line, top } of found) {
    top.forEach((value, at) => {
      if (value === null) return;
      const off = chart.kind === "lines" ? line.deviation[at] ?? 0 : 0;
      values.push(value - off, value + off);
    });
    for (const one of line.each ?? []) values.push(...one.filter((value) => value !== null));
  }
  let low = values.reduce((a, b) => Math.min(a, b), Infinity);
  let high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!(low <= high)) return [0, 1];
  if (low >= 0 && low < 0.35 * high) low = 0;
  const room = high - low || Math.abs(high) || 1;
  return [low === 0 ? 0 : low - 0.05 * room, high + 0.06 * room];
}

/** "M..L.." through the points that are known. */
function path(values, x, y) {
  const points = values.map((value, at) => (value === null ? null : `${x(at).toFixed(1)},${y(value).toFixed(1)}`));
  const known = points.filter((point) => point !== null);
  return known.length ? `M${known.join("L")}` : "";
}

/** The area between two lines, where both are known. */
function area(low, high, x, y) {
  const known = [...high.keys()].filter((at) => low[at] !== null && high[at] !== null);
  if (!known.length) return "";
  const there = known.map((at) => `${x(at).toFixed(1)},${y(high[at]).toFixed(1)}`);
  const back = known.reverse().map((at) => `${x(at).toFixed(1)},${y(low[at]).toFixed(1)}`);
  return `M${there.join("L")}L${back.join("L")}Z`;
}

function draw(drawing) {
  const { chart, room, shown } = drawing;
  const width = room.clientWidth;
  const found = layers(chart, shown);
  const [low, high] = bounds(chart, found);
  const last = REPORT.frames[REPORT.frames.length - 1];
  const across = width - EDGE.left - EDGE.right;
  const frameX = (frames) => EDGE.left + (frames / last) * across;
  const x = (at) => frameX(REPORT.frames[at]);
  const y = (value) => EDGE.top + (1 - (value - low) / (high - low)) * (HEIGHT - EDGE.top - EDGE.bottom);
  const svg = drawn("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": chart.title });
  for (const value of ticks(low, high, 4)) {
    svg.append(drawn("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }));
    svg.append(drawn("text", { class: "left", x: EDGE.left - 7, y: y(value) + 4 }, numberText(value)));
  }
  for (const frames of ticks(0, last, across > 420 ? 6 : 4)) {
    svg.append(drawn("text", { class: frames === 0 ? "first" : "below", x: frameX(frames), y: HEIGHT - 5 }, countText(frames)));
  }
  for (const layer of found) svg.append(...marks(chart, layer, x, y));
  const cursor = drawn("line", { class: "cursor", y1: EDGE.top, y2: HEIGHT - EDGE.bottom, visibility: "hidden" });
  svg.append(cursor);
  showValues(svg, cursor, chart, found, x);
  room.replaceChildren(svg);
}

/** The elements of one line. */
function marks(chart, { line, top, base }, x, y) {
  const colour = toneOf(line.tone);
  if (chart.kind !== "lines") {
    return [drawn("path", { d: area(base, top, x, y), fill: colour, class: "part" })];
  }
  const off = (sign) => top.map((value, at) => (value === null || line.deviation[at] === null ? null : value + sign * line.deviation[at]));
  const parts = [drawn("path", { d: area(off(-1), off(1), x, y), fill: colour, class: "band" })];
  for (const run of line.each ?? []) parts.push(drawn("path", { d: path(run, x, y), stroke: colour, class: "single" }));
  parts.push(drawn("path", { d: path(top, x, y), stroke: colour, class: line.dashed ? "mean dashed" : "mean" }));
  const known = [...top.keys()].filter((at) => top[at] !== null);
  if (line.dashed || known.length < 8) {
    for (const at of known) parts.push(drawn("circle", { cx: x(at), cy: y(top[at]), r: 2.6, fill: colour }));
  }
  return parts;
}

/** Show a line at the frames under the pointer, and the values there. */
function showValues(svg, cursor, chart, found, x) {
  const tooltip = element("tooltip");
  const leave = () => {
    tooltip.hidden = true;
    cursor.setAttribute("visibility", "hidden");
  };
  const show = (event) => {
    const where = event.clientX - svg.getBoundingClientRect().left;
    const at = REPORT.frames.reduce((best, _, index) => (Math.abs(x(index) - where) < Math.abs(x(best) - where) ? index : best), 0);
    const rows = found.map(({ line }) => [line, line.mean[at]]).filter(([, value]) => value !== null);
    if (!rows.length) return leave();
    const text = rows.map(([line, value]) => `${line.label}  ${meanText(value, line.deviation[at])}`);
    tooltip.textContent = [`${countText(REPORT.frames[at])} frames`, ...text].join("\n");
    tooltip.hidden = false;
    const box = tooltip.getBoundingClientRect();
    tooltip.style.left = `${clamp(event.clientX + 14, 4, window.innerWidth - box.width - 4)}px`;
    tooltip.style.top = `${clamp(event.clientY + 14, 4, window.innerHeight - box.height - 4)}px`;
    for (const name of ["x1", "x2"]) cursor.setAttribute(name, x(at));
    cursor.setAttribute("visibility", "visible");
    return undefined;
  };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", leave);
}
