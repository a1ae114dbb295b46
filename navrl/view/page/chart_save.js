"use strict";
/* A chart as an SVG file that carries its colours, fonts, title and legend itself. */

const SAVED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];

/** The text of an SVG file of a chart that carries its colours and fonts itself. */
function savedPicture({ plot, svg, hidden }) {
  const width = svg.viewBox.baseVal.width;
  const legend = plot.lines.filter((line) => line.label && !hidden.has(line.label));
  const title = drawn("text", { class: "title", x: 2, y: 14 }, plot.title);
  const moved = drawn("g", { transform: "translate(0 20)" });
  const rows = plot.lines.length > 1 || plot.named ? legend : [];
  const whole = drawn("svg", { width, height: HEIGHT + 24 + 16 * rows.length, viewBox: `0 0 ${width} ${HEIGHT + 24 + 16 * rows.length}` }, title, moved);
  rows.forEach((line, index) => {
    const at = HEIGHT + 30 + 16 * index;
    const swatch = drawn("line", { class: line.pale ? "mean pale" : "mean", x1: EDGE.left, x2: EDGE.left + 16, y1: at, y2: at });
    swatch.style.setProperty("stroke", line.colour);
    whole.append(swatch, drawn("text", { class: "legend-text", x: EDGE.left + 22, y: at + 4 }, line.label));
  });
  const back = drawn("rect", { class: "paper", width: "100%", height: "100%" });
  whole.prepend(back);
  moved.append(...svg.cloneNode(true).childNodes);
  for (const node of moved.querySelectorAll("[visibility=hidden]")) node.remove();
  const room = made("div", "chart");
  room.append(whole);
  document.body.append(room);
  for (const node of whole.querySelectorAll("*")) {
    const style = getComputedStyle(node);
    const given = SAVED.map((name) => [name, style.getPropertyValue(name)]);
    for (const [name, value] of given) node.setAttribute(name, value);
  }
  for (const node of whole.querySelectorAll("*")) {
    node.removeAttribute("class");
    node.removeAttribute("style");
  }
  room.remove();
  return new XMLSerializer().serializeToString(whole);
}
