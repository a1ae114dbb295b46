"use strict";
/* The first page of a gallery: an entry for every run and policy, with its curve, replays and league. */

const GALLERY = JSON.parse(element("data").textContent);

function linkTo({ file, name, text }) {
  const link = made("a", "", made("b", "", name), made("span", "", text));
  link.href = file;
  return made("li", "", link);
}

/** The matrix of a league, which the gallery holds as a file too. */
function leagueOf(svg) {
  const node = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  const fold = made("details", "league", made("summary", "", "league: who beats whom"), document.importNode(node, true));
  fold.open = true;
  return fold;
}

function entryOf(entry) {
  const text = made("div", "", made("h2", "", entry.title), made("p", "about", entry.about), ...entry.scores.map((score) => made("p", "score", score)));
  const node = made("section", entry.curve ? "entry curved" : "entry", text);
  if (entry.curve) {
    const lines = entry.curve.lines.map((line) => ({ ...line, colour: lineColour(line.tone) }));
    node.append(new Chart({ ...entry.curve, lines, across: { label: "frames", values: entry.frames } }).node);
  }
  node.append(made("ul", "links", ...entry.links.map(linkTo)));
  if (entry.league) node.append(leagueOf(entry.league));
  return node;
}

function start() {
  element("title").textContent = GALLERY.title;
  element("subtitle").textContent = GALLERY.subtitle;
  element("outcome").hidden = true;
  document.querySelector("header").append(pageTools());
  element("report").append(...GALLERY.entries.map(entryOf));
}

start();
