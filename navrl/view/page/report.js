"use strict";
/* A report: tables of runs and of their final evaluations, then sections of charts. */

const REPORT = JSON.parse(element("data").textContent);
const DRAWN = []; // charts on the page, to be drawn again when it changes its width

/** "0.975 ± 0.012", or a dash for an unknown value. */
function meanText(mean, deviation) {
  if (mean === null || mean === undefined) return "-";
  return deviation === null || deviation === undefined ? numberText(mean) : `${numberText(mean)} ± ${numberText(deviation)}`;
}

function marked(tone, text) {
  const node = made("span", "marked", text);
  node.style.setProperty("--tone", toneOf(tone));
  return node;
}

function durationText(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function runsTable() {
  const rows = REPORT.table.map((run) => [
    marked(run.tone, run.name),
    String(run.seed),
    run.state,
    countText(run.frames),
    durationText(run.seconds),
    run.fps === null ? "-" : countText(run.fps),
  ]);
  return tableOf("runs", ["run", "seed", "state", "frames", "time", "frames/s"], rows);
}

function finalsTable() {
  const rows = REPORT.finals.map((final) => [
    marked(final.tone, final.label),
    final.where,
    final.what,
    meanText(final.mean, final.deviation),
    final.values.map((value) => (value === undefined || value === null ? "-" : numberText(value))).join("  "),
  ]);
  return tableOf("finals", ["", "evaluated in", "", "mean ± deviation", "runs"], rows);
}

function headline() {
  element("title").textContent = REPORT.title;
  element("subtitle").textContent = REPORT.subtitle;
  const best = REPORT.finals[0];
  const pill = element("outcome");
  pill.hidden = REPORT.groups.length !== 1 || best === undefined;
  if (!pill.hidden) pill.textContent = `${best.what} ${meanText(best.mean, best.deviation)}`;
}

/** A card with title, newest values, chart and legend. */
function card(chart) {
  const room = made("div", "chart");
  const legend = made("div", "legend");
  const node = made("figure", "card", made("figcaption", "", chart.title), room, legend);
  const shown = chart.lines.map(() => true);
  const drawing = { chart, room, shown };
  if (chart.lines.length > 1 || REPORT.groups.length > 1) {
    chart.lines.forEach((line, index) => {
      const key = made("button", line.dashed ? "key dashed" : "key", line.label);
      key.style.setProperty("--tone", toneOf(line.tone));
      key.setAttribute("aria-pressed", "true");
      key.addEventListener("click", () => {
        shown[index] = !shown[index];
        key.setAttribute("aria-pressed", String(shown[index]));
        draw(drawing);
      });
      legend.append(key);
    });
  }
  DRAWN.push(drawing);
  return node;
}

function section(content) {
  const cards = made("div", "cards", ...content.charts.map(card));
  const text = content.text ? [made("p", "section-text", content.text)] : [];
  if (!content.folded) return made("section", "", made("h2", "", content.title), ...text, cards);
  const fold = made("details", "", made("summary", "", `${content.title} (${content.charts.length})`), ...text, cards);
  fold.addEventListener("toggle", drawAll);
  return made("section", "", fold);
}

/** Charts that can be seen; those in a closed fold have no width yet. */
function drawAll() {
  for (const drawing of DRAWN) if (drawing.room.clientWidth > 0) draw(drawing);
}

function start() {
  headline();
  const main = element("report");
  if (REPORT.finals.length) main.append(made("section", "", made("h2", "", "Final evaluation"), finalsTable()));
  main.append(...REPORT.sections.map(section));
  main.append(made("section", "", made("h2", "", "Runs"), runsTable()));
  new ResizeObserver(drawAll).observe(main);
}

start();
