"use strict";
/* Elements and numbers that pages of reports share. */

/** A new element with a class, text and children. */
function made(kind, name, ...inside) {
  const node = document.createElement(kind);
  if (name) node.className = name;
  node.append(...inside);
  return node;
}

/** An SVG element with attributes. */
function drawn(kind, attributes, ...inside) {
  const node = document.createElementNS(element("blank").namespaceURI, kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...inside);
  return node;
}

/** A button that is on or off, or does one thing if it has no state. */
function button(text, title, pressed, act) {
  const node = made("button", "tool", text);
  node.type = "button";
  node.title = title;
  if (pressed !== null) node.setAttribute("aria-pressed", String(pressed));
  node.addEventListener("click", act);
  return node;
}

/** A table that scrolls sideways where it is too wide. */
function tableOf(name, heads, rows) {
  const head = made("tr", "", ...heads.map((text) => made("th", "", text)));
  const body = rows.map((cells) => made("tr", "", ...cells.map((cell) => made("td", "", cell))));
  const table = made("table", name, made("thead", "", head), made("tbody", "", ...body));
  return made("div", "wide", table);
}

/** Text with the colour of a line before it. */
function marked(colour, text, pale = false) {
  const node = made("span", pale ? "marked pale" : "marked", text);
  node.style.setProperty("--tone", colour);
  return node;
}

/** The colour of the i-th of many, in the light and in the dark theme. */
function lineColour(index) {
  return `light-dark(${LIGHT.tones[index % LIGHT.tones.length]}, ${toneOf(index)})`;
}

/** 0.0123456 -> "0.0123"; thousands as counts. */
function numberText(value) {
  const size = Math.abs(value);
  if (size >= 999.5) return countText(value);
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

/** 1228800 -> "1.23M" */
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

/** "0.975 (0.951..0.988)", the value alone where it has no interval, or a dash where it is unknown. */
function intervalText(mean, low, high) {
  if (mean === null || mean === undefined) return "-";
  if (low === null || low === undefined) return numberText(mean);
  return `${numberText(mean)} (${numberText(low)}..${numberText(high)})`;
}

function durationText(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** Show the tooltip beside a place in the window. */
function showTip(x, y, ...inside) {
  const tooltip = element("tooltip");
  tooltip.replaceChildren(...inside);
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = x + 16 + box.width > window.innerWidth - 4 ? x - 16 - box.width : x + 16;
  tooltip.style.left = `${clamp(left, 4, window.innerWidth - box.width - 4)}px`;
  tooltip.style.top = `${clamp(y + 14, 4, window.innerHeight - box.height - 4)}px`;
}

function hideTip() {
  element("tooltip").hidden = true;
}

/** Buttons of the header: the other theme, and print. */
function pageTools() {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: light)");
  const isLight = () => (root.dataset.theme ? root.dataset.theme === "light" : system.matches);
  const theme = button("", "light or dark", null, () => {
    root.dataset.theme = isLight() ? "dark" : "light";
    name();
  });
  const name = () => { theme.textContent = isLight() ? "dark" : "light"; };
  system.addEventListener("change", name);
  name();
  return made("div", "page-tools", theme, button("print", "print, or save as PDF", null, () => window.print()));
}
