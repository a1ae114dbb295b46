"use strict";
/* Numbers and warnings of the own aircraft, the events, and tones for those who want them. */

const MOST_EVENTS = 6;
const CLOCK_NAMES = [12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

class Cockpit {
  constructor(fight) {
    this.fight = fight;
    this.tones = null;
    this.beeped = 0;
    element("feed").replaceChildren();
  }

  show(now, selected, stick) {
    const own = now.aircraft[selected];
    const enemy = this.fight.enemyOf(now, selected);
    const { data } = this.fight;
    element("mach").textContent = own.mach.toFixed(2);
    element("load").textContent = own.load.toFixed(1);
    element("rack").textContent = rounds(own.rounds, data.ammunition);
    element("trigger").textContent = this.triggerText(own, selected);
    element("enemy-name").textContent = enemy.name.toLowerCase();
    const rate = closing(own, enemy);
    element("range").textContent = enemy.hidden ? "no contact" : kilometres(distance(own, enemy));
    element("closing").textContent = enemy.hidden ? "" : `${rate < 0 ? "opening" : "closing"} ${Math.abs(rate).toFixed(0)} m/s`;
    const shown = this.fight.me === selected ? stick : { rudder: this.lastRudder(selected), throttle: own.throttle };
    element("rudder").style.setProperty("--at", `${50 - 50 * shown.rudder}%`);
    element("throttle").style.setProperty("--at", `${100 * shown.throttle}%`);
    this.warn(now, selected);
    this.showChances(own, enemy);
  }

  lastRudder(index) {
    const { rudder } = this.fight.aircraft[index];
    return rudder[rudder.length - 1];
  }

  triggerText(own, selected) {
    if (!own.alive) return "";
    if (this.fight.missiles.some(({ carrier, track }) => carrier === selected && !track.isOver)) return "in the air";
    if (!own.rounds) return "none left";
    return this.fight.ready || this.fight.me !== selected ? "ready" : "wait";
  }

  /** The most urgent missile as a pilot hears of it. */
  warn(now, selected) {
    const [first, ...others] = this.fight.warnings(now, selected);
    const line = element("warning");
    line.classList.toggle("near", Boolean(first) && first.left < URGENT_S);
    if (!first) {
      this.write(line, "");
      return;
    }
    const hour = CLOCK_NAMES[(Math.round((-first.bearing / Math.PI) * 6) + 12) % 12];
    const more = others.length ? ` and ${others.length} more` : "";
    const left = first.left < 100 ? `, ${first.left.toFixed(0)} s` : "";
    this.write(line, `MISSILE ${hour} o'clock${left}${more}`);
    const pause = clamp(first.left * 40, 110, 900);
    if (now.time * 1000 - this.beeped * 1000 > pause) {
      this.beeped = now.time;
      this.beep(first.left < URGENT_S ? 1400 : 880, 0.06);
    }
  }

  write(place, text) {
    if (place.textContent !== text) place.textContent = text;
  }

  /** Can I escape if he fires now; can he? */
  showChances(own, enemy) {
    const { fight } = this;
    const graph = fight.graphs.raw(0, own.index);
    const unseen = enemy.hidden && own.side === 0;
    this.showChance("mine", own, graph && !unseen ? graph.margins : null, this.fates(own, ""));
    const attack = graph && fight.attack && !unseen ? fight.attack : null;
    this.showChance("theirs", enemy, attack, this.fates(enemy, ": fire"));
  }

  /** [when it gets away, when it does not] */
  fates({ index, name }, advice) {
    return index === this.fight.me ? ["You can escape", "You are caught"] : [`${name} can escape`, `${name} is caught${advice}`];
  }

  showChance(id, craft, margins, [free, caught]) {
    const place = element(id);
    const [title, text] = place.children;
    place.style.setProperty("--side", craft.colour);
    place.hidden = !margins;
    if (!margins) return;
    const [left, right] = margins;
    const best = Math.max(left, right);
    place.classList.toggle("caught", best < 0);
    title.textContent = best < 0 ? caught : free;
    const side = left >= right ? "left" : "right";
    text.textContent = best < 0
      ? `a shot now has ${kilometres(-best)} to spare, whichever way the turn`
      : `a shot now falls ${kilometres(best)} short after a turn ${side}`;
  }

  // ---- events -------------------------------------------------------------------------------------

  announce(time, text, colour) {
    const line = document.createElement("li");
    const when = document.createElement("time");
    when.textContent = clockText(time);
    line.style.setProperty("--side", colour);
    line.append(when, text);
    element("feed").append(line);
    while (element("feed").children.length > MOST_EVENTS) element("feed").firstChild.remove();
  }

  beep(pitch, length) {
    if (!this.tones) return;
    const tone = this.tones.createOscillator();
    const volume = this.tones.createGain();
    tone.frequency.value = pitch;
    volume.gain.setValueAtTime(0.08, this.tones.currentTime);
    volume.gain.exponentialRampToValueAtTime(0.001, this.tones.currentTime + length);
    tone.connect(volume).connect(this.tones.destination);
    tone.start();
    tone.stop(this.tones.currentTime + length);
  }
}
