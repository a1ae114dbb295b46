"use strict";
/* Sections of charts and tables in the data of navrl.view.report.report(), in an element of any page. */

const FINALS_TEXT = "Held-out episodes with the most probable actions. Intervals of 95 %: Student's t of the mean over seeds, Wilson's of a single run's share of episodes.";
const MOST_SMOOTHING = 0.98;

class ReportView {
  constructor(root) {
    this.zoom = new Shared(null); // of all charts, for they have one axis of frames
    this.smoothing = new Shared(0);
    this.charts = new Map(); // by the titles of section and chart
    this.sections = new Map();
    this.finals = made("section", "");
    this.body = made("div", "");
    this.runs = made("section", "");
    this.origin = made("section", "");
    root.append(this.controls(), this.finals, this.body, this.runs, this.origin);
  }

  /** Smoothing, and what is zoomed into. */
  controls() {
    const slider = made("input", "");
    Object.assign(slider, { type: "range", id: "smoothing", min: 0, max: MOST_SMOOTHING, step: 0.02, value: 0 });
    const shown = made("output", "", "0");
    slider.addEventListener("input", () => {
      shown.textContent = slider.value;
      this.smoothing.set(Number(slider.value));
    });
    const label = made("label", "", "smoothing", slider, shown);
    const reset = button("", "show all frames (Escape in a chart)", null, () => this.zoom.set(null));
    reset.id = "reset-zoom";
    reset.hidden = true;
    this.zoom.watchers.push(() => {
      reset.hidden = this.zoom.value === null;
      if (!reset.hidden) reset.textContent = `${this.zoom.value.map(countText).join(" to ")} frames \u00d7`;
    });
    const hint = made("span", "hint", "drag in a chart to zoom in");
    return made("div", "controls", label, reset, hint);
  }

  /** Show data of the same or another state of the runs; what the user chose stays. */
  update(data) {
    this.data = data;
    this.showTables();
    const used = new Set();
    data.sections.forEach((section, index) => {
      const part = this.section(section.title, section.folded);
      part.name.textContent = section.folded ? `${section.title} (${section.charts.length})` : section.title;
      part.text.textContent = [section.text, constantsText(section.constants)].filter(Boolean).join(" ");
      const cards = section.charts.map((chart) => this.chart(`${section.title}\n${chart.title}`, chart, used).node);
      keepInOrder(part.cards, cards);
      if (this.body.children[index] !== part.node) this.body.insertBefore(part.node, this.body.children[index] ?? null);
      used.add(section.title);
    });
    for (const [title, { node }] of this.sections) {
      if (used.has(title)) continue;
      node.remove();
      this.sections.delete(title);
    }
    for (const key of this.charts.keys()) if (!used.has(key)) this.charts.delete(key);
  }

  section(title, folded) {
    if (!this.sections.has(title)) {
      const [name, text, cards] = [made(folded ? "summary" : "h2", ""), made("p", "section-text"), made("div", "cards")];
      const inside = [name, text, cards];
      const node = made("section", "", ...(folded ? [made("details", "", ...inside)] : inside));
      this.sections.set(title, { node, name, text, cards });
    }
    return this.sections.get(title);
  }

  chart(key, chart, used) {
    used.add(key);
    const plot = this.plotOf(chart);
    if (this.charts.has(key)) this.charts.get(key).update(plot);
    else this.charts.set(key, new Chart(plot, this));
    return this.charts.get(key);
  }

  plotOf(chart) {
    const { frames, groups } = this.data;
    const lines = chart.lines.map((line) => ({ ...line, colour: lineColour(line.tone) }));
    const hints = [["the same", chart.same], ["always 0", chart.zero]].filter(([, names]) => names.length);
    const hint = hints.map(([text, names]) => `${text}: ${names.join(", ")}`).join("; ");
    return { ...chart, lines, hint, across: { label: "frames", values: frames }, named: groups.length > 1 };
  }

  showTables() {
    const { finals, table, provenance } = this.data;
    showOnce(this.finals, finals, () => [
      made("h2", "", "Final evaluation"), made("p", "section-text", FINALS_TEXT), finalsTable(finals),
    ]);
    showOnce(this.runs, table, () => [made("h2", "", "Runs"), runsTable(table)]);
    showOnce(this.origin, provenance ?? [], () => originOf(provenance));
  }
}

function constantsText(constants) {
  return constants.length ? `Constant: ${constants.join(", ")}.` : "";
}

/** Fill an element anew if its data is another; rows that are there keep their place otherwise. */
function showOnce(node, data, content) {
  const text = JSON.stringify(data);
  if (node.dataset.shown === text) return;
  node.dataset.shown = text;
  const left = node.querySelector(".wide")?.scrollLeft ?? 0;
  node.replaceChildren(...(data.length === 0 ? [] : content()));
  if (left) node.querySelector(".wide").scrollLeft = left;
}

/** Make these the children of an element; those that stay are not moved, so that nothing loses the focus. */
function keepInOrder(room, nodes) {
  for (const child of [...room.children]) if (!nodes.includes(child)) child.remove();
  nodes.forEach((node, index) => {
    if (room.children[index] !== node) room.insertBefore(node, room.children[index] ?? null);
  });
}

function runsTable(runs) {
  const rows = runs.map((run) => [
    marked(lineColour(run.tone), run.name),
    String(run.seed),
    run.state,
    countText(run.frames),
    durationText(run.seconds),
    run.fps === null ? "-" : countText(run.fps),
  ]);
  return tableOf("runs", ["run", "seed", "state", "frames", "time", "frames/s, mean"], rows);
}

function finalsTable(finals) {
  const rows = finals.map((final) => [
    marked(lineColour(final.tone), final.label),
    final.where,
    final.what,
    intervalText(final.mean, final.low, final.high),
    final.values.map((value) => (isKnown(value) ? numberText(value) : "-")).join("  "),
  ]);
  return tableOf("finals", ["", "against or in", "statistic", "mean (95 % interval)", "by run"], rows);
}

/** What made the runs, and how to make them again. */
function originOf({ labels, differences, origins, commands, configurations }) {
  const found = [made("h2", "", "Configuration and origin")];
  if (differences.length) found.push(tableOf("differences", ["options that differ", ...labels], differences.map(([name, values]) => [name, ...values])));
  for (const [facts, runs] of origins) {
    const about = origins.length > 1 ? [["runs", runs.join(", ")]] : [];
    const list = [...about, ...facts].flatMap(([name, text]) => [made("dt", "", name), made("dd", "", text)]);
    found.push(made("dl", "facts", ...list));
  }
  found.push(...commands.map(([name, line]) => made("pre", "command", ...(commands.length > 1 ? [made("span", "run", `${name}  `)] : []), line)));
  found.push(...configurations.map(([label, text]) => made("details", "configuration", made("summary", "", `configuration of ${label}`), made("pre", "command", text))));
  return found;
}
