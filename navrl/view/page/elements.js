"use strict";
/* Elements that pages of reports share. */

/** A new element with a class, text and children. */
function made(kind, name, ...inside) {
  const node = document.createElement(kind);
  if (name) node.className = name;
  node.append(...inside);
  return node;
}

/** A table that scrolls sideways where it is too wide. */
function tableOf(name, heads, rows) {
  const head = made("tr", "", ...heads.map((text) => made("th", "", text)));
  const body = rows.map((cells) => made("tr", "", ...cells.map((cell) => made("td", "", cell))));
  const table = made("table", name, made("thead", "", head), made("tbody", "", ...body));
  return made("div", "wide", table);
}
