"use strict";
/* Numbers beside the pictures: the situation of the selected aircraft, and a row for everybody. */

const COLUMNS = ["name", "mach", "load", "rounds", "left", "right", "current"];

class Panel {
  constructor(fight, picked) {
    this.fight = fight;
    element("roster").classList.toggle("crowd", fight.aircraft.length > 6);
    this.rows = fight.aircraft.map((craft) => this.row(craft, picked));
  }

  row(craft, picked) {
    const row = document.createElement("tr");
    row.style.setProperty("--side", craft.colour);
    const cells = {};
    for (const name of COLUMNS) {
      cells[name] = row.insertCell();
      cells[name].className = name;
    }
    cells.name.textContent = craft.name;
    row.addEventListener("click", () => picked(craft.index));
    element("roster").tBodies[0].append(row);
    return { row, cells };
  }

  show(now, selected) {
    now.aircraft.forEach((craft, index) => this.showRow(craft, index === selected, now.time));
    element("situation").replaceChildren(...this.situation(now, selected));
  }

  showRow(craft, selected, time) {
    const { row, cells } = this.rows[craft.index];
    row.classList.toggle("selected", selected);
    row.classList.toggle("dead", !craft.alive);
    cells.mach.textContent = craft.alive ? craft.mach.toFixed(2) : "\u2013";
    cells.load.textContent = craft.alive ? craft.load.toFixed(1) : "\u2013";
    cells.rounds.textContent = rounds(craft.rounds, this.fight.data.ammunition);
    const margins = craft.alive ? this.fight.graphs.marginsAt(time, craft.index) : null;
    ["left", "right", "current"].forEach((name, i) => {
      cells[name].textContent = margins ? signed(margins[i]) : "\u2013";
      cells[name].classList.toggle("caught", Boolean(margins) && margins[i] < 0);
    });
  }

  /** A few short sentences, the urgent ones marked. */
  situation(now, selected) {
    const own = now.aircraft[selected];
    const enemy = this.fight.enemyOf(now, selected);
    const say = (text, kind) => {
      const span = document.createElement("span");
      span.textContent = text;
      if (kind) span.className = kind;
      return span;
    };
    const name = say(own.name, "who");
    name.style.color = own.colour;
    if (!own.alive) {
      const { died } = this.fight.aircraft[selected];
      return [name, say(`was shot down at ${clockText(died)}; above is its last graph`)];
    }
    const rate = closing(own, enemy);
    const lines = [
      name,
      say(`${kilometres(distance(own, enemy))} to ${enemy.name}`),
      say(`${rate < 0 ? "opening" : "closing"} ${Math.abs(rate).toFixed(0)} m/s`),
    ];
    const graph = this.fight.graphs.at(now.time, selected);
    if (graph) lines.push(escapeText(graph.margins, say));
    const threat = this.fight.threatTo(now, selected);
    if (threat) lines.push(this.warning(own, threat, graph, say));
    return lines;
  }

  warning(own, threat, graph, say) {
    const speed = closing(own, threat);
    const left = speed > 1 ? `${(distance(own, threat) / speed).toFixed(0)} s` : "falling back";
    const coming = graph ? graph.missiles.filter((missile) => !missile.mine) : [];
    const hits = coming.some((missile) => missile.hits);
    const fate = coming.length ? `, ${hits ? "hits" : "misses"} on this course` : "";
    const text = `missile ${kilometres(distance(own, threat))}, ${left}${fate}`;
    return say(text, hits || !coming.length ? "urgent" : "");
  }
}

/** One sentence: can a shot fired now be outrun, and by which turn. */
function escapeText([left, right], say) {
  const best = Math.max(left, right);
  if (best < 0) return say(`shot at now: no escape, ${kilometres(-best)} short`, "urgent");
  const side = left >= right ? "left" : "right";
  return say(`shot at now: can escape ${side} by ${kilometres(best)}`, "calm");
}

function signed(metres) {
  const value = (metres / 1000).toFixed(1);
  return metres < 0 ? `\u2212${value.slice(1)}` : `+${value}`;
}
