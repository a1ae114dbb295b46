"use strict";
/* What is asked before a fight, and what is shown after it. */

const NOBODY = "you";
const RATED = ["against", "won", "drawn", "lost", "rating", "95 %"];

class Menu {
  constructor(data) {
    this.data = data;
    this.fields = {};
    for (const [name, field] of Object.entries(this.describe())) this.add(name, field);
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
}

/** zoo:combat-league -> "combat-league (trained)" */
function pilotText(name) {
  if (name.startsWith("zoo:")) return `${name.slice(4)} (trained)`;
  return name.includes("/") ? `${name.split("/").slice(-3).join("/")} (yours)` : name;
}

// ---- the result -------------------------------------------------------------------------------------

/** What the table shows of a fight, see GamePage.showTable. */
function resultOf({ outcome, text, opponent, score, ratings }, playing) {
  const side = { 1: 0, [-1]: 1 }[outcome.result];
  const colour = side === undefined ? THEME.pale : sideColour(side);
  if (!playing) return { verdict: text, colour };
  const verdicts = { 1: "You win", 0: "A draw", [-1]: "You are shot down" };
  const verdict = outcome.left_early ? "You left, which counts as lost" : verdicts[outcome.result];
  const shots = `${outcome.fired} fired, ${outcome.hits} hit, ${outcome.evaded} evaded`;
  const how = `${clockText(outcome.seconds)} against ${opponent}: ${shots}`;
  return { verdict, colour, how, score, ratings: ratings.length ? [RATED, ...ratings.slice(0, 6).map(ratedRow)] : [] };
}

/** Games against one opponent, and points with the interval. */
function ratedRow({ opponent, wins, draws, losses, points, low, high }) {
  return [opponent, wins, draws, losses, points, `${low} to ${high}`];
}
