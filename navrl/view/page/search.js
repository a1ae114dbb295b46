"use strict";
/* The page of a search: what to do next, its history, what matters, every option, every trial. */

const SEARCH = JSON.parse(element("data").textContent);
const ENDED = SEARCH.trials.filter((trial) => trial.score !== null && (trial.state === "complete" || trial.state === "pruned"));
const COMPLETE = ENDED.filter((trial) => trial.state === "complete");

function toneOfTrial(trial) {
  if (trial.number === SEARCH.best) return TONE_OF.best;
  return TONE_OF[trial.state] ?? TONE_OF.pruned;
}

function textOf(trial) {
  const options = Object.entries(trial.params).map(([name, value]) => `${name}=${value}`);
  const cpu = trial.cpu === null ? "" : `, ${Math.round(trial.cpu)} CPU s`;
  return [`trial ${trial.number}, ${trial.state}`, `${SEARCH.objective} ${numberText(trial.score)}${cpu}`, ...options].join("\n");
}

function pointsOf(trials, x) {
  return trials.map((trial) => (
    { x: x(trial), y: trial.score, colour: toneOfTrial(trial), hollow: trial.state === "pruned", text: textOf(trial) }
  ));
}

/** Results by trial, and the best one so far. */
function history() {
  let best = -Infinity;
  const line = COMPLETE.flatMap((trial) => {
    const before = best;
    best = Math.max(best, trial.score);
    return before === -Infinity ? [[trial.number, best]] : [[trial.number, before], [trial.number, best]];
  });
  const last = SEARCH.trials.reduce((most, trial) => Math.max(most, trial.number), 1);
  if (line.length) line.push([last, best]);
  return {
    title: `${SEARCH.objective} by trial, and the best so far`,
    unit: SEARCH.objective,
    across: { label: "trial", low: 0, high: last },
    lines: [lineThrough(line, TONE_OF.best, 1.6)],
    points: pointsOf(ENDED, (trial) => trial.number),
  };
}

/** What every trial reported while it trained. */
function curves() {
  const values = SEARCH.trials.map((trial) => ({ trial, points: trial.values.filter(([, value]) => value !== null) }));
  const all = values.flatMap(({ points }) => points);
  return {
    title: `${SEARCH.objective} while training`,
    unit: SEARCH.objective,
    across: { label: "tenth of a training", low: 0, high: all.reduce((most, [step]) => Math.max(most, step), SEARCH.reports) },
    lines: values.map(({ trial, points }) => (
      trial.number === SEARCH.best ? lineThrough(points, toneOfTrial(trial), 2.2) : lineThrough(points, fainter(toneOfTrial(trial)), 1.1)
    )),
    points: values.filter(({ points }) => points.length).map(({ trial, points }) => {
      const [x, y] = points[points.length - 1];
      return { x, y, colour: toneOfTrial(trial), hollow: trial.state === "pruned", text: textOf({ ...trial, score: trial.score ?? y }) };
    }),
  };
}

/** Results against CPU seconds, with those that no other trial beats in both. */
function costs() {
  const known = COMPLETE.filter((trial) => trial.cpu !== null);
  const front = known.filter((trial) => SEARCH.front.includes(trial.number)).sort((a, b) => a.cpu - b.cpu);
  return {
    title: SEARCH.front.length ? `${SEARCH.objective} by CPU seconds; the line joins what no other trial beats` : `${SEARCH.objective} by CPU seconds`,
    unit: SEARCH.objective,
    across: { label: "CPU seconds", ...around(known.map((trial) => trial.cpu)) },
    lines: [lineThrough(front.map((trial) => [trial.cpu, trial.score]), TONE_OF.best, 1.6)],
    points: pointsOf(known, (trial) => trial.cpu),
  };
}

/** Results by the value of one option. */
function slice(dimension) {
  const known = ENDED.filter((trial) => dimension.name in trial.params);
  const read = (trial) => (dimension.choices ? trial.params[dimension.name] : Number(trial.params[dimension.name]));
  return {
    title: dimension.name,
    unit: SEARCH.objective,
    across: { label: dimension.name, ...dimension },
    points: pointsOf(known, read),
  };
}

function bars() {
  const most = Math.max(...SEARCH.importance.map(([, share]) => share), 1e-9);
  const rows = SEARCH.importance.map(([name, share]) => {
    const bar = made("span", "bar");
    bar.style.width = `${(100 * share) / most}%`;
    return made("div", "share", made("span", "", name), made("span", "track", bar), made("span", "", `${Math.round(100 * share)} %`));
  });
  return made("div", "card shares", ...rows);
}

function trialsTable() {
  const names = SEARCH.dimensions.map((dimension) => dimension.name);
  const order = [...SEARCH.trials].sort((a, b) => (
    (b.state === "complete") - (a.state === "complete") || (b.score ?? -Infinity) - (a.score ?? -Infinity)
  ));
  const rows = order.map((trial) => [
    String(trial.number),
    trial.fault ? `${trial.state}: ${trial.fault}` : trial.state,
    trial.score === null ? "-" : numberText(trial.score),
    trial.scores.length > 1 ? trial.scores.map((score) => (score === null ? "-" : numberText(score))).join("  ") : "",
    countText(trial.frames),
    trial.cpu === null ? "-" : String(Math.round(trial.cpu)),
    ...names.map((name) => trial.params[name] ?? "-"),
  ]);
  const last = names.map((name) => name.replace(/^agent\./, ""));
  return tableOf("runs", ["trial", "state", SEARCH.objective, "by seed", "frames", "CPU s", ...last], rows);
}

function start() {
  const main = begun(SEARCH);
  if (SEARCH.commands.length) {
    main.append(section("Train with the best options", "", ...SEARCH.commands.map((line) => made("pre", "command", line))));
  }
  const saved = SEARCH.share === null ? "" : ` ${Math.round(100 * SEARCH.share)} % of the frames of whole trainings were trained.`;
  const hollow = `A hollow point was pruned and stands where it was.${saved}`;
  main.append(section("History", hollow, made("div", "cards", ...[history(), curves(), costs()].filter(({ points }) => points.length).map(card))));
  if (SEARCH.importance.length) {
    main.append(section("What matters", "The share of each option in what tells good trials from others (PED-ANOVA of Optuna).", bars()));
  }
  main.append(section("Options", "", made("div", "cards", ...SEARCH.dimensions.map((dimension) => card(slice(dimension))))));
  main.append(section("Trials", "", trialsTable()));
}

start();
