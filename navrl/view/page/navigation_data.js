"use strict";
/* The state of a recorded trip at any time, interpolated between its knots. Metres, seconds, radians. */

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const FREE = 255; // a beam that met nothing
const EDGE_LEVELS = 10; // a beam that changes by more has met something else
const MERGED_S = 0.35; // the shield counts as one intervention while it rests no longer

class Trip {
  constructor(raw, index, data, landscapes) {
    Object.assign(this, { index, params: data.params, landscape: landscapes[raw.world] });
    Object.assign(this, { number: raw.number, kind: raw.kind, endedBy: raw.endedBy });
    Object.assign(this, { reached: raw.reached, outcome: raw.outcome, scans: raw.scans });
    [this.start, this.goal] = [pointOf(raw.start), pointOf(raw.goal)];
    this.t = summed(raw.ms).map((ms) => ms / 1000);
    for (const name of ["x", "y", "z", "vx", "vy", "vz", "clearance"]) this[name] = inMetres(summed(raw[name]));
    this.beam0 = summed(raw.beam0).map((angle) => angle / 1000);
    this.changed = inMetres(raw.changed);
    this.duration = this.t[this.t.length - 1];
    this.speeds = this.t.map((_, k) => Math.hypot(this.vx[k], this.vy[k], this.vz[k]));
    this.distances = this.t.map((_, k) => Math.hypot(
      this.goal.x - this.x[k], this.goal.y - this.y[k], this.goal.z - this.z[k],
    ));
    this.movers = raw.movers.map((mover) => moverOf(mover, data.movers));
    this.interventions = this.spansOfShield();
  }

  /** Everything about the drone at a time. */
  at(time) {
    const b = upperKnot(this.t, time);
    const a = Math.max(0, b - 1);
    const span = this.t[b] - this.t[a];
    const share = span > 0 ? clamp((time - this.t[a]) / span, 0, 1) : 1;
    const place = (axis) => {
      const [p, v] = [this[axis], this[`v${axis}`]];
      return cubic(p[a], v[a], p[b], v[b], span, share);
    };
    const between = (name) => mix(this[name][a], this[name][b], share);
    return {
      time, a, b, share, x: place("x"), y: place("y"), z: place("z"),
      vx: between("vx"), vy: between("vy"), vz: between("vz"), speed: between("speeds"),
      beam0: between("beam0"), clearance: between("clearance"), distance: between("distances"),
      changed: time > this.t[0] ? this.changed[b] : 0,
    };
  }

  /** The moving obstacles of the instant `now`; near: perceived, level: at the height of the drone. */
  moversAt(now) {
    const { nearCount, nearRange, bodyRadius } = this.params;
    const found = this.movers.map((mover) => {
      const place = placeOf(mover, now.time);
      const away = Math.hypot(place.x - now.x, place.y - now.y);
      const level = mover.column || Math.abs(place.z - now.z) <= mover.halfHeight + bodyRadius;
      return { ...mover, ...place, away, level, near: false };
    });
    found.sort((a, b) => a.away - b.away);
    for (const mover of found.slice(0, nearCount)) mover.near = mover.away <= nearRange;
    return found;
  }

  /** Ranges of all beams at the instant `now`, ring after ring; Infinity where a beam met nothing. */
  scanAt(now) {
    if (this.scans === null) return null;
    const size = this.params.beams * this.params.elevations.length;
    this.levels ||= unpackedRanges(this.scans, size * this.t.length);
    const turned = Math.abs(this.beam0[now.b] - this.beam0[now.a]) > Math.PI / this.params.beams;
    const share = turned ? Math.round(now.share) : now.share;
    const metres = this.params.lidarRange / (DIGITS.length - 1);
    return Array.from({ length: size }, (_, beam) => {
      const [before, after] = [this.levels[now.a * size + beam], this.levels[now.b * size + beam]];
      const nearest = share < 0.5 ? before : after;
      if (nearest === FREE) return Infinity;
      const same = before !== FREE && after !== FREE && Math.abs(before - after) <= EDGE_LEVELS;
      return (same ? mix(before, after, share) : nearest) * metres;
    });
  }

  spansOfShield() {
    const spans = [];
    this.changed.forEach((changed, knot) => {
      if (!changed) return;
      const last = spans[spans.length - 1];
      const from = this.t[knot - 1];
      if (last && from - last.to < MERGED_S) last.to = this.t[knot];
      else spans.push({ from, to: this.t[knot] });
    });
    return spans;
  }

  /** The knot at which something came nearest. */
  closest() {
    return this.clearance.reduce((best, metres, knot) => (metres < this.clearance[best] ? knot : best), 0);
  }
}

function inMetres(list) {
  return list.map((value) => value / 100);
}

function pointOf([x, y, z]) {
  return { x: x / 100, y: y / 100, z: z / 100 };
}

function moverOf([index, ms, ...places], kinds) {
  const [x, y, z] = places.map(inMetres);
  return {
    index, t: ms.map((each) => each / 1000), xs: x, ys: y, zs: z,
    radius: kinds.radius[index], column: Boolean(kinds.column[index]), halfHeight: kinds.halfHeight,
  };
}

/** A moving obstacle flies straight from knot to knot. */
function placeOf({ t, xs, ys, zs }, time) {
  const b = upperKnot(t, time);
  const a = b - 1;
  const span = t[b] - t[a];
  const share = clamp((time - t[a]) / span, 0, 1);
  return {
    x: mix(xs[a], xs[b], share), y: mix(ys[a], ys[b], share), z: mix(zs[a], zs[b], share),
    vx: (xs[b] - xs[a]) / span, vy: (ys[b] - ys[a]) / span,
  };
}

/** A level per range: a digit is one, a dot and a digit are so many free beams. */
function unpackedRanges(text, length) {
  const levels = new Uint8Array(length).fill(FREE);
  let place = 0;
  for (let i = 0; i < text.length; i += 1) {
    if (text[i] === ".") {
      i += 1;
      place += DIGITS.indexOf(text[i]);
    } else {
      levels[place] = DIGITS.indexOf(text[i]);
      place += 1;
    }
  }
  return levels;
}
