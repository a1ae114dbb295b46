"use strict";
/* What the pages of searches and of populations share. */

const TONE_OF = {
  complete: "light-dark(#1769c2, #4ba6ff)", pruned: "light-dark(#5d6b7b, #8b98a9)", best: "light-dark(#a87500, #ffd34d)", failed: "light-dark(#d1531b, #ff6f43)",
};

/** Show title and outcome of the page; return the element for its sections. */
function begun(page) {
  element("title").textContent = page.title;
  element("subtitle").textContent = page.subtitle;
  element("outcome").textContent = page.outcome;
  element("outcome").hidden = !page.outcome;
  document.querySelector("header").append(pageTools());
  return element("report");
}

/** A colour that lets through what is below it. */
function fainter(colour) {
  return `color-mix(in srgb, ${colour} 85%, transparent)`;
}

/** A line through points [x, y]. */
function lineThrough(points, colour, width) {
  return { label: "", colour, width, x: points.map(([x]) => x), mean: points.map(([, y]) => y) };
}

function card(plot) {
  return new Chart(plot).node;
}

function section(title, text, ...inside) {
  return made("section", "", made("h2", "", title), ...(text ? [made("p", "section-text", text)] : []), ...inside);
}
