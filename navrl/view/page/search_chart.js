"use strict";
/* Plots of trials in SVG: points and lines over an axis that is linear, logarithmic or a few choices. */

const TONE_OF = { complete: "#4ba6ff", pruned: "#8b98a9", best: "#ffd34d", failed: "#ff6f43" };

const PLOTS = []; // on the page, to be drawn again when it changes its width

/** Show title and outcome of the page; return the element for its sections. */
function begun(page) {
  element("title").textContent = page.title;
  element("subtitle").textContent = page.subtitle;
  element("outcome").textContent = page.outcome;
  element("outcome").hidden = !page.outcome;
  return element("report");
}

function card(plot) {
  const room = made("div", "chart");
  PLOTS.push([plot, room]);
  return made("figure", "card", made("figcaption", "", plot.title), room);
}

function section(title, text, ...inside) {
  return made("section", "", made("h2", "", title), ...(text ? [made("p", "section-text", text)] : []), ...inside);
}

/** Draw all plots, again whenever the page changes its width. */
function drawWithin(main) {
  new ResizeObserver(() => PLOTS.forEach(([plot, room]) => drawPlot(plot, room))).observe(main);
}

/** Where values of an axis lie between 0 and 1, and its marks: [place, text]. */
function scaleOf({ low, high, log, choices }) {
  if (choices) {
    const place = (value) => (choices.indexOf(value) + 0.5) / choices.length;
    return { place, marks: choices.map((value) => [place(value), value]) };
  }
  const span = high - low || 1;
  if (!log) {
    const place = (value) => (value - low) / span;
    return { place, marks: ticks(low, low + span, 4).map((value) => [place(value), numberText(value)]) };
  }
  const place = (value) => Math.log(value / low) / Math.log(high / low || Math.E);
  const powers = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); 10 ** power <= high * (1 + 1e-9); power += 1) powers.push(10 ** power);
  const values = powers.length > 1 ? powers : [low, high];
  return { place, marks: values.map((value) => [place(value), value < 0.01 ? value.toExponential(0) : numberText(value)]) };
}

/** The bounds of numbers, with some room around them. */
function around(values) {
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!(low <= high)) return { low: 0, high: 1 };
  const room = 0.06 * (high - low || Math.abs(high) || 1);
  return { low: low >= 0 && low < 0.35 * high ? 0 : low - room, high: high + room };
}

/** plot: {title, across, up, lines: [{points: [[x, y]], colour, width}], points: [{x, y, tone, hollow, text}]}. */
function drawPlot(plot, room) {
  const width = room.clientWidth;
  const [across, up] = [scaleOf(plot.across), scaleOf(plot.up)];
  const x = (value) => EDGE.left + 8 + across.place(value) * (width - EDGE.left - EDGE.right - 16);
  const y = (value) => EDGE.top + (1 - up.place(value)) * (HEIGHT - EDGE.top - EDGE.bottom);
  const svg = drawn("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": plot.title });
  for (const [place, text] of up.marks) {
    const at = EDGE.top + (1 - place) * (HEIGHT - EDGE.top - EDGE.bottom);
    svg.append(drawn("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: at, y2: at }));
    svg.append(drawn("text", { class: "left", x: EDGE.left - 7, y: at + 4 }, text));
  }
  for (const [place, text] of across.marks) {
    svg.append(drawn("text", { class: "below", x: EDGE.left + 8 + place * (width - EDGE.left - EDGE.right - 16), y: HEIGHT - 5 }, text));
  }
  for (const { points, colour, width: thick } of plot.lines) {
    const d = points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join("L");
    if (points.length) svg.append(drawn("path", { d: `M${d}`, fill: "none", stroke: colour, "stroke-width": thick }));
  }
  for (const point of plot.points) svg.append(pointOf(point, x(point.x), y(point.y)));
  room.replaceChildren(svg);
}

function pointOf({ tone, hollow, text }, x, y) {
  const node = drawn("circle", { class: "trial", cx: x, cy: y, r: hollow ? 3 : 4, fill: hollow ? "none" : tone, stroke: tone });
  const tooltip = element("tooltip");
  const show = (event) => {
    tooltip.textContent = text;
    tooltip.hidden = false;
    const box = tooltip.getBoundingClientRect();
    tooltip.style.left = `${clamp(event.clientX + 14, 4, window.innerWidth - box.width - 4)}px`;
    tooltip.style.top = `${clamp(event.clientY + 14, 4, window.innerHeight - box.height - 4)}px`;
  };
  node.addEventListener("pointermove", show);
  node.addEventListener("pointerdown", show);
  node.addEventListener("pointerleave", () => { tooltip.hidden = true; });
  return node;
}
