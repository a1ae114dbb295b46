"use strict";
/* A fight while it is flown: frames of the simulator come in, and between two of them everything goes on as it
   was steered last; the own aircraft at once as it is steered now. */

const SPACING_S = 0.2; // of the points of a trail
const RADAR = { range: 80000, half: Math.PI / 3, remembers: 12 }; // m, rad to each side of the nose, s

class LiveTrack extends Track {
  constructor(raw) {
    super({ t: [...raw.t], x: [...raw.x], y: [...raw.y], h: [...raw.h], v: [...raw.v] });
    this.rate = 0; // of the heading after the last knot, rad/s
    this.isOver = false;
  }

  append(t, [x, y, h, v]) {
    const span = t - this.end;
    const turned = h - this.h[this.h.length - 1];
    if (span > 0) this.rate = Math.atan2(Math.sin(turned), Math.cos(turned)) / span;
    for (const [name, value] of Object.entries({ t, x, y, h, v })) this[name].push(value);
    this.end = t;
    if (t - this.path[this.path.length - 1].t >= SPACING_S) this.path.push({ t, x, y });
  }

  finish(t, knot) {
    if (t > this.end) this.append(t, knot);
    this.isOver = true;
  }

  /** After the last knot as it was steered there. */
  at(time) {
    if (time <= this.end || this.isOver) return super.at(time);
    const last = super.at(this.end);
    return { ...last, ...ahead(last, this.rate, time - this.end) };
  }
}

/** Place and heading after a while on a circle. */
function ahead({ x, y, heading, speed }, rate, span) {
  const half = (rate * span) / 2;
  const way = speed * span * (Math.abs(half) < 1e-6 ? 1 : Math.sin(half) / half);
  return { x: x + way * Math.cos(heading + half), y: y + way * Math.sin(heading + half), heading: heading + 2 * half };
}

class LiveFight extends Fight {
  constructor(opening) {
    super(opening);
    for (const craft of this.aircraft) {
      craft.track = new LiveTrack(craft.track);
      craft.rudder = [...craft.rudder];
      craft.rounds = [...craft.rounds];
      craft.throttle = 1;
    }
    this.me = opening.playing ? opening.you : null;
    this.duration = 0;
    this.attack = null; // margins of the enemy of the graph's owner
    this.ready = false;
    this.seen = new Map(); // contacts of the own radar: index -> {time, x, y, heading}
  }

  frame(message) {
    const { t } = message;
    this.duration = t;
    this.ready = message.ready;
    message.aircraft.forEach((row, index) => this.fly(this.aircraft[index], t, row));
    for (const missile of message.launched) this.launch(missile);
    for (const [number, target, ...knot] of message.missiles) {
      const missile = this.missile(number);
      missile.target = target;
      missile.track.append(t, knot);
    }
    for (const { number, ending, knot } of message.ended) {
      const missile = this.missile(number);
      missile.ending = ending;
      missile.track.finish(t, knot);
    }
    for (const { kind, aircraft } of message.events) {
      if (kind === "kill") this.aircraft[aircraft].died = t;
    }
    if (this.data.radar) this.scan(t);
  }

  fly(craft, t, [x, y, h, v, rudder, throttle, alive, rounds]) {
    if (craft.track.isOver) return;
    craft.track.append(t, [x, y, h, v]);
    craft.track.rate = (v * rudder) / this.data.turnRadius;
    craft.rudder.push(rudder);
    craft.rounds.push(rounds);
    craft.throttle = throttle;
    if (!alive) craft.track.isOver = true;
  }

  launch({ number, carrier, target, t, knot: [x, y, h, v] }) {
    const { side, colour } = this.aircraft[carrier];
    const track = new LiveTrack({ t: [t], x: [x], y: [y], h: [h], v: [v] });
    this.missiles.push({ number, carrier, target, side, colour, track, ending: "flying" });
  }

  missile(number) {
    return this.missiles.find((missile) => missile.number === number);
  }

  /** The own aircraft turns as it is steered now: its answer is there before that of the simulator. */
  steer(rudder) {
    if (this.me === null) return;
    const { track } = this.aircraft[this.me];
    track.rate = (track.v[track.v.length - 1] * rudder) / this.data.turnRadius;
  }

  at(time) {
    const aircraft = this.aircraft.map((craft) => this.craftAt(craft, time));
    const missiles = this.missiles
      .filter(({ track, hidden }) => !hidden && (!track.isOver || time < track.end))
      .map((missile) => ({ ...missile, ...missile.track.at(time), ...this.motorAt(missile, time) }));
    return { time, aircraft, missiles };
  }

  craftAt(craft, time) {
    const now = super.craftAt(craft, time);
    const contact = craft.hidden ? this.seen.get(craft.index) : null;
    return { ...now, hidden: craft.hidden, contact, throttle: craft.throttle };
  }

  /** Missiles that fly at an aircraft, the most urgent one first: {bearing off the nose, away, left in s}. */
  warnings(now, me) {
    const own = now.aircraft[me];
    if (!own.alive) return [];
    return this.missiles
      .filter(({ track, target }) => !track.isOver && target === me)
      .map(({ number, track }) => {
        const shot = track.at(now.time);
        const away = distance(own, shot);
        const rate = closing(own, shot);
        const line = Math.atan2(shot.y - own.y, shot.x - own.x);
        const turned = line - own.heading;
        const bearing = Math.atan2(Math.sin(turned), Math.cos(turned));
        return { number, line, bearing, away, left: rate > 1 ? away / rate : Infinity };
      })
      .sort((a, b) => a.left - b.left);
  }

  // ---- the own radar ------------------------------------------------------------------------------

  /** Hide what no aircraft of the own side has in front of its nose; a contact is remembered for a while. */
  scan(time) {
    const own = this.aircraft.filter(({ side, died }) => side === 0 && died === null).map(({ track }) => track.at(time));
    const inSight = (place) => own.some((from) => {
      const turned = Math.atan2(place.y - from.y, place.x - from.x) - from.heading;
      return distance(from, place) < RADAR.range && Math.abs(Math.atan2(Math.sin(turned), Math.cos(turned))) < RADAR.half;
    });
    for (const craft of this.aircraft) {
      if (craft.side === 0) continue;
      const place = craft.track.at(time);
      craft.hidden = craft.died === null && !inSight(place);
      if (!craft.hidden) this.seen.set(craft.index, { time, ...place });
      else if (time - (this.seen.get(craft.index)?.time ?? -Infinity) > RADAR.remembers) this.seen.delete(craft.index);
    }
    for (const missile of this.missiles) {
      missile.hidden = missile.side !== 0 && !missile.track.isOver && !inSight(missile.track.at(time));
    }
  }
}
