"use strict";
/* The state of a recorded fight at any time, interpolated between decisions. */

const GRAVITY_MPS2 = 9.8;

class Fight {
  constructor(data) {
    this.data = data;
    this.duration = data.duration;
    this.aircraft = data.aircraft.map((raw, index) => ({
      ...raw, index, track: new Track(raw.track), colour: sideColour(raw.side),
    }));
    this.missiles = data.missiles.map((raw) => ({
      ...raw, track: new Track(raw.track), side: data.aircraft[raw.carrier].side,
      colour: sideColour(data.aircraft[raw.carrier].side),
    }));
    this.graphs = new GraphStore(data.graphs, this.aircraft);
  }

  /** Everybody and everything in the air at this time. */
  at(time) {
    const aircraft = this.aircraft.map((craft) => this.craftAt(craft, time));
    const missiles = this.missiles
      .filter(({ track }) => track.begin <= time && time < track.end)
      .map((missile) => ({ ...missile, ...missile.track.at(time), ...this.motorAt(missile, time) }));
    return { time, aircraft, missiles };
  }

  craftAt(craft, time) {
    const now = craft.track.at(time);
    const alive = craft.died === null || time < craft.died;
    const rudder = craft.rudder[now.knot];
    const load = (now.speed ** 2 * Math.abs(rudder)) / (this.data.turnRadius * GRAVITY_MPS2);
    return {
      ...now, alive, index: craft.index, name: craft.name, side: craft.side, colour: craft.colour,
      mach: now.speed / this.data.speedOfSound,
      load: Math.min(load, this.data.maxLoad === null ? Infinity : this.data.maxLoad),
      rounds: craft.rounds[now.knot],
    };
  }

  motorAt(missile, time) {
    const burning = time - missile.track.begin < this.data.burnTime;
    return { burning, threat: burning || missile.track.at(time).speed >= this.data.speedOfSound };
  }

  /** The nearest living enemy, else the nearest enemy. */
  enemyOf(now, me) {
    const own = now.aircraft[me];
    const enemies = now.aircraft.filter((craft) => craft.side !== own.side);
    const living = enemies.filter((craft) => craft.alive);
    const among = living.length ? living : enemies;
    return among.reduce((best, craft) => (distance(own, craft) < distance(own, best) ? craft : best));
  }

  /** The nearest missile that flies at this aircraft, or undefined. */
  threatTo(now, me) {
    const own = now.aircraft[me];
    const coming = now.missiles.filter((missile) => missile.target === me);
    coming.sort((a, b) => distance(own, a) - distance(own, b));
    return coming[0];
  }

  /** Events as marks for the time line. */
  marks() {
    return this.data.events.map(({ t, kind, aircraft, other }) => {
      const [own, their] = [this.aircraft[aircraft], this.aircraft[other]];
      const label = {
        launch: `${own.name} fires at ${their.name}`,
        hit: `${own.name} hits ${their.name}`,
        miss: `${own.name} misses ${their.name}`,
        kill: `${own.name} is shot down`,
      }[kind];
      return { time: t, kind, lane: own.side, colour: own.colour, label };
    });
  }
}

function distance(a, b) {
  return Math.hypot(a.x - b.x, a.y - b.y);
}

/** How fast b comes nearer to a, m/s. */
function closing(a, b) {
  const apart = distance(a, b) || 1;
  const dvx = b.speed * Math.cos(b.heading) - a.speed * Math.cos(a.heading);
  const dvy = b.speed * Math.sin(b.heading) - a.speed * Math.sin(a.heading);
  return -((b.x - a.x) * dvx + (b.y - a.y) * dvy) / apart;
}

/** Missiles left as diamonds, of those there were. */
function rounds(left, full) {
  if (full === null) return "\u221e";
  return full <= 8 ? "\u25c6".repeat(left) + "\u25c7".repeat(full - left) : String(left);
}
