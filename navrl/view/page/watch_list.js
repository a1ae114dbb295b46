"use strict";
/* The list of runs: one row for each, changed in place, so that focus and choice stay. */

const SPARK = { width: 104, height: 26 };
const STATES = ["running", "waiting", "finished", "interrupted", "stale", "failed", "unreadable"];

class RunList {
  constructor() {
    this.rows = new Map(); // by id
    this.nodes = new Map();
    this.chosen = new Set();
    this.body = document.querySelector("#all-runs tbody");
    this.filter = element("filter");
    this.filter.addEventListener("input", () => this.show());
    element("compare").addEventListener("click", () => { window.location.hash = `run=${[...this.chosen].join(",")}`; });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.matches("input, select, textarea") || element("list").hidden) return;
      event.preventDefault();
      this.filter.focus();
    });
  }

  /** Take the whole list, or rows that have changed. */
  take(rows, gone = [], whole = false) {
    if (whole) this.rows.clear();
    for (const row of rows) this.rows.set(row.id, row);
    for (const id of gone) this.rows.delete(id);
    for (const id of [...this.nodes.keys()]) {
      if (this.rows.has(id)) continue;
      this.nodes.delete(id);
      this.chosen.delete(id);
    }
    for (const row of rows) this.fill(row);
    this.show();
  }

  /** The rows that pass the filter, those that train first, then the newest. */
  show() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter((word) => word);
    const passes = (row) => {
      const text = [row.name, row.env, row.agent, row.state, `seed=${row.seed}`, ...(row.tags ?? []), row.note].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const live = (row) => (row.state === "running" || row.state === "waiting" ? 1 : 0);
    const rows = [...this.rows.values()].sort((a, b) => live(b) - live(a) || (b.time ?? 0) - (a.time ?? 0) || (a.name < b.name ? 1 : -1));
    keepInOrder(this.body, rows.filter(passes).map((row) => this.nodes.get(row.id)));
    element("empty").hidden = this.rows.size > 0;
    element("unmatched").hidden = !this.rows.size || this.body.childElementCount > 0;
    element("unmatched").textContent = `no run matches ${words.join(" ")}`;
    this.count();
    this.showChoice();
  }

  count() {
    const counts = STATES.map((state) => [state, [...this.rows.values()].filter((row) => row.state === state).length]);
    const shown = counts.filter(([, number]) => number).map(([state, number]) => made("span", `state ${state}`, `${number} ${state}`));
    element("states").replaceChildren(...shown);
  }

  showChoice() {
    const node = element("compare");
    node.disabled = this.chosen.size < 2;
    node.textContent = this.chosen.size < 2 ? "choose runs to compare" : `compare ${this.chosen.size} runs`;
  }

  fill(row) {
    const known = this.nodes.get(row.id);
    const cells = [nameCell(row), stateCell(row), progressCell(row), row.fps ? countText(row.fps) : "-", objectiveCell(row), sparkCell(row.spark), ageText(row.time)];
    if (known) {
      known.className = row.state;
      cells.forEach((cell, at) => {
        // A link that has the focus stays the same element.
        if (at > 0 || known.children[1].textContent !== cell.textContent) known.children[at + 1].replaceChildren(cell);
      });
      return;
    }
    const box = made("input", "");
    box.type = "checkbox";
    box.setAttribute("aria-label", `choose ${row.name}`);
    box.addEventListener("change", () => {
      if (box.checked) this.chosen.add(row.id);
      else this.chosen.delete(row.id);
      this.showChoice();
    });
    this.nodes.set(row.id, made("tr", row.state, ...[box, ...cells].map((cell) => made("td", "", cell))));
  }
}

function nameCell(row) {
  const link = made("a", "", row.name);
  link.href = `#run=${row.id}`;
  const tags = (row.tags ?? []).map((tag) => made("span", "tag", tag));
  const what = row.env ? `${row.env} with ${row.agent}, seed ${row.seed}` : "";
  return made("span", "", link, made("span", "detail", what, ...tags.flatMap((tag) => [" ", tag])));
}

function stateCell(row) {
  const reason = row.state === "failed" || row.state === "unreadable" ? row.reason : row.state === "stale" ? "its process is gone" : "";
  return made("span", `state ${row.state}`, row.state, ...(reason ? [made("span", "detail", reason)] : []));
}

function progressBar(row) {
  const bar = made("i", "");
  bar.style.width = `${100 * clamp(row.frames / (row.total || 1), 0, 1)}%`;
  return made("span", "progress", bar);
}

function progressText(row) {
  const left = row.eta_s ? `, ${durationText(row.eta_s)} left` : "";
  return row.total ? `${countText(row.frames)} of ${countText(row.total)}${left}` : countText(row.frames);
}

function progressCell(row) {
  return row.env ? made("span", "", progressText(row), progressBar(row)) : made("span", "", "-");
}

function objectiveCell(row) {
  if (!row.objective) return made("span", "", "-");
  const [name, value, low, high] = row.objective;
  const interval = isKnown(low) && isKnown(high) ? [made("span", "interval", `${numberText(low)}..${numberText(high)}`)] : [];
  return made("span", "", `${name} ${isKnown(value) ? numberText(value) : "-"}`, ...interval);
}

/** A small line through the values that are known. */
function sparkCell(values) {
  const known = (values ?? []).map((value, at) => [at, value]).filter(([, value]) => isKnown(value));
  if (known.length < 2) return made("span", "", "");
  const heights = known.map(([, value]) => value);
  const [low, high] = [lowest(heights), highest(heights)];
  const x = (at) => 3 + (at / (values.length - 1)) * (SPARK.width - 6);
  const y = (value) => 3 + (1 - (value - low) / (high - low || 1)) * (SPARK.height - 6);
  const points = known.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  const [lastAt, lastValue] = known[known.length - 1];
  return drawn("svg", { class: "spark", width: SPARK.width, height: SPARK.height, role: "img", "aria-label": `from ${numberText(heights[0])} to ${numberText(lastValue)}` },
    drawn("path", { d: `M${points.join("L")}` }), drawn("circle", { cx: x(lastAt), cy: y(lastValue), r: 2.2 }));
}

function ageText(time) {
  if (!time) return "-";
  const seconds = Math.max(0, Date.now() / 1000 - time);
  return seconds < 86400 ? durationText(seconds) : `${Math.round(seconds / 86400)} d`;
}
