"use strict";
/* A fight in sentences: what happens, and what it means. */

const NEAR_M = 8000; // of a merge
const FAR_M = 60000; // out of range
const QUIET_S = 6; // between two remarks that no event asked for

class Commentator {
  /** say(time, text, colour) */
  constructor(fight, say) {
    this.fight = fight;
    this.say = say;
    this.remarked = -QUIET_S;
    this.states = new Map(); // what was remarked on last, by aircraft
  }

  name(index) {
    return index === this.fight.me ? "you" : this.fight.aircraft[index].name;
  }

  /** "you fire", "Red fires" */
  does(index, verb) {
    const name = this.name(index);
    return name === "you" ? `You ${verb}` : `${name} ${third(verb)}`;
  }

  events(message) {
    const now = this.fight.at(message.t);
    for (const { kind, aircraft, other, t } of message.events) {
      const text = this[kind](now, aircraft, other);
      if (text) this.speak(t, text, aircraft);
    }
    this.remark(now);
  }

  speak(time, text, index) {
    this.remarked = time;
    this.say(time, text, this.fight.aircraft[index].colour);
  }

  launch(now, from, at) {
    const [own, other] = [now.aircraft[from], now.aircraft[at]];
    const known = !own.hidden || this.fight.me === null;
    const away = known ? ` from ${kilometres(distance(own, other))}` : "";
    return `${this.does(from, "fire")} at ${this.name(at)}${away}`;
  }

  hit() {
    return ""; // the kill says it
  }

  miss(now, from, at) {
    if (!now.aircraft[at].alive) return `The missile of ${this.name(from)} flies on without a target`;
    return `${this.does(at, "evade")} the missile of ${this.name(from)}`;
  }

  kill(now, index, by) {
    if (by === index) return `${this.does(index, "crash")}`;
    return `${this.does(by, "shoot")} ${this.name(index)} down`;
  }

  // ---- what nobody asked for ------------------------------------------------------------------------

  /** One remark at a time about distance, flight and pursuit, only when something has changed. */
  remark(now) {
    if (now.time - this.remarked < QUIET_S) return;
    for (const own of shown(now.aircraft)) {
      if (!own.alive) continue;
      const enemy = this.fight.enemyOf(now, own.index);
      if (!enemy.alive || enemy.hidden) continue;
      const state = situationOf(own, enemy);
      if (this.states.get(own.index) === state) continue;
      const isFirst = !this.states.has(own.index);
      this.states.set(own.index, state);
      const text = isFirst ? "" : this.remarkOn(state, own, enemy);
      if (text) {
        this.speak(now.time, text, own.index);
        return;
      }
    }
  }

  remarkOn(state, own, enemy) {
    const away = kilometres(distance(own, enemy));
    return {
      merge: `${this.does(own.index, "merge")} with ${this.name(enemy.index)}`,
      far: `Out of range: ${away} between ${this.name(own.index)} and ${this.name(enemy.index)}`,
      flees: `${this.does(own.index, "turn")} away from ${this.name(enemy.index)} at ${away}`,
      hunts: `${this.does(own.index, "turn")} towards ${this.name(enemy.index)} at ${away}`,
      beside: "",
    }[state];
  }
}

function situationOf(own, enemy) {
  const away = distance(own, enemy);
  if (away < NEAR_M) return "merge";
  if (away > FAR_M) return "far";
  const turned = Math.atan2(enemy.y - own.y, enemy.x - own.x) - own.heading;
  const ahead = Math.cos(turned);
  if (ahead < -0.7) return "flees";
  return ahead > 0.7 ? "hunts" : "beside";
}

/** fire -> fires, crash -> crashes */
function third(verb) {
  return /(s|sh|ch)$/.test(verb) ? `${verb}es` : `${verb}s`;
}
