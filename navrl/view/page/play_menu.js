"use strict";
/* What is asked before a fight, and what is shown after it. */

const NOBODY = "you";

class Menu {
  /** data of the page; start(choice) begins a game. */
  constructor(data, start) {
    this.data = data;
    this.start = start;
    this.fields = {};
    for (const [name, field] of Object.entries(this.describe())) this.add(name, field);
    element("menu").addEventListener("close", () => {
      if (element("menu").returnValue === "begin") start(this.choice());
    });
    element("menu").addEventListener("cancel", (event) => { if (!this.canLeave) event.preventDefault(); });
    this.update();
  }

  describe() {
    const { pilots, first, difficulties, mostAircraft } = this.data;
    const sizes = Array.from({ length: mostAircraft }, (_, i) => [String(i + 1), `${i + 1} against ${i + 1}`]);
    const named = pilots.map((name) => [name, pilotText(name)]);
    return {
      opponent: { label: "against", options: named, value: first.opponent },
      own: { label: "flown by", options: [[NOBODY, "you"], ...named], value: first.own || NOBODY },
      team_size: { label: "aircraft", options: sizes, value: String(first.team_size) },
      wingman: { label: "your wingman", options: named, value: first.wingman },
      difficulty: { label: "difficulty", options: Object.keys(difficulties).map((name) => [name, name]), value: first.difficulty },
    };
  }

  add(name, { label, options, value }) {
    const line = document.createElement("label");
    const select = document.createElement("select");
    select.name = name;
    for (const [key, text] of options) select.add(new Option(text, key));
    select.value = value;
    select.addEventListener("change", () => this.update());
    line.append(label, select);
    element("choices").append(line);
    this.fields[name] = { line, select };
  }

  update() {
    const { own, team_size: size, difficulty } = this.choice();
    this.fields.wingman.line.hidden = size < 2 || own !== null;
    element("menu-title").textContent = own === null ? "Fly it yourself" : "Watch them fight";
    for (const id of ["brief", "short"]) element(id).hidden = own !== null;
    element("begin").textContent = own === null ? "Take off" : "Begin";
    element("hint").textContent = this.data.difficulties[difficulty];
  }

  choice() {
    const value = (name) => this.fields[name].select.value;
    return {
      opponent: value("opponent"), own: value("own") === NOBODY ? null : value("own"),
      team_size: Number(value("team_size")), wingman: value("wingman"), difficulty: value("difficulty"),
    };
  }

  open(fault, canLeave) {
    this.canLeave = canLeave;
    element("fault").textContent = fault || "";
    element("menu").returnValue = "";
    if (!element("menu").open) element("menu").showModal();
  }
}

/** zoo:combat-league -> "combat-league (trained)" */
function pilotText(name) {
  if (name.startsWith("zoo:")) return `${name.slice(4)} (trained)`;
  return name.includes("/") ? `${name.split("/").slice(-3).join("/")} (yours)` : name;
}

// ---- the result -------------------------------------------------------------------------------------

function showResult(result, playing) {
  const { outcome } = result;
  const verdicts = { 1: "You win", 0: "A draw", [-1]: "You are shot down" };
  const lost = outcome.left_early ? "You left, which counts as lost" : verdicts[outcome.result];
  const side = { 1: 0, [-1]: 1 }[outcome.result];
  element("verdict").textContent = playing ? lost : result.text;
  element("verdict").style.setProperty("--side", side === undefined ? THEME.pale : sideColour(side));
  const shots = `${outcome.fired} fired, ${outcome.hits} hit, ${outcome.evaded} evaded`;
  element("how").textContent = playing ? `${clockText(outcome.seconds)} against ${result.opponent}: ${shots}` : "";
  const total = result.score.reduce((sum, [, points]) => sum + points, 0);
  element("score").replaceChildren(...(playing ? [...result.score, ["score", total]].map(row) : []));
  showRatings(playing ? result.ratings : []);
  element("kept").textContent = `recorded in ${result.folder}`;
  element("replay").href = result.replay;
  element("over").showModal();
}

function row(cells) {
  const line = document.createElement("tr");
  for (const text of cells) line.insertCell().textContent = text;
  return line;
}

/** One line for each opponent: games, and points with the interval. */
function showRatings(ratings) {
  const head = ["against", "won", "drawn", "lost", "rating", "95 %"];
  const shownRows = ratings.slice(0, 6).map((each) => row([
    each.opponent, each.wins, each.draws, each.losses, each.points, `${each.low} to ${each.high}`,
  ]));
  element("ratings").tHead.replaceChildren(...(ratings.length ? [row(head)] : []));
  element("ratings").tBodies[0].replaceChildren(...shownRows);
}
