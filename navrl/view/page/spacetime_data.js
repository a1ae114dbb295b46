"use strict";
/* Space-time graphs as they come in the file, unpacked, and blended between two decisions.

   A packed list holds whole metres, twice differenced. A line is {x, y} packed and t, the index of its
   list of times, or ms, packed milliseconds; a cone is {r, n}: packed radii per time, and where the missile is no threat. */

class GraphStore {
  constructor(packed, aircraft) {
    this.packed = packed;
    this.aircraft = aircraft;
    this.known = new Map();
  }

  /** The graph of an aircraft at a time, or null. */
  at(time, owner) {
    const { before, after, share } = this.around(time);
    const graph = this.get(before, owner);
    const next = this.get(after, owner);
    return graph && next && next.enemy === graph.enemy ? blended(graph, next, share) : graph;
  }

  /** Only [left, right, current, critical time] of that graph, or null. */
  marginsAt(time, owner) {
    const { before, after, share } = this.around(time);
    const [now, next] = [this.raw(before, owner), this.raw(after, owner)];
    return now && next ? blendedNumbers(now.margins, next.margins, share) : now && now.margins;
  }

  /** Indices of the decisions before and after a time, and the share of the time between them. */
  around(time) {
    const { times } = this.packed;
    let after = times.findIndex((each) => each > time);
    if (after < 0) after = times.length;
    const before = Math.max(0, after - 1);
    return { before, after, share: clamp((time - times[before]) / (times[after] - times[before]) || 0, 0, 1) };
  }

  /** The time of the last graph of the aircraft, s. */
  lastTime(owner) {
    const last = this.packed.of.findLastIndex((graphs) => graphs[owner]);
    return last < this.packed.of.length - 1 ? this.packed.times[last] : Infinity;
  }

  raw(index, owner) {
    return index < this.packed.of.length ? this.packed.of[index][owner] : null;
  }

  get(index, owner) {
    const key = `${index}/${owner}`;
    if (!this.known.has(key)) {
      const raw = this.raw(index, owner);
      this.known.set(key, raw && this.unpacked(raw, this.packed.times[index]));
      if (this.known.size > 64) this.known.delete(this.known.keys().next().value);
    }
    return this.known.get(key);
  }

  unpacked(raw, time) {
    const lines = {};
    for (const name of ["left", "right", "current"]) lines[name] = this.line(raw.lines[name]);
    return {
      enemy: raw.enemy,
      lines,
      cone: this.cone(raw.cone, raw.enemy, time),
      missiles: raw.missiles.map((missile) => ({ ...missile, line: this.line(missile.line) })),
      margins: raw.margins,
    };
  }

  line(raw) {
    const t = raw.ms ? summed(raw.ms).map((ms) => ms / 1000) : this.packed.tables[raw.t];
    const [x, y] = [summed(raw.x), summed(raw.y)];
    return x.map((value, i) => ({ x: value, y: y[i], t: t[i] }));
  }

  /** Slices of points {x, y, pale}, one per time, around the enemy. */
  cone(raw, enemy, time) {
    const times = this.packed.tables[raw.t];
    const angles = this.packed.tables[raw.angles].map((degrees) => (degrees * Math.PI) / 180);
    const { x, y, heading } = this.aircraft[enemy].track.at(time);
    const slices = times.map((_, row) => summed(raw.r[row]).map((radius, i) => ({
      x: x + radius * Math.cos(heading + angles[i]),
      y: y + radius * Math.sin(heading + angles[i]),
      pale: this.packed.tables[raw.n][row][i] === 1,
    })));
    if (times[0] > 0) {
      slices.unshift(angles.map(() => ({ x, y, pale: false })));
      return { times: [0, ...times], slices: closed(slices, angles) };
    }
    return { times, slices: closed(slices, angles) };
  }
}

/** Slices whose angles go all around end where they began. */
function closed(slices, angles) {
  const span = angles[angles.length - 1] - angles[0];
  const step = span / (angles.length - 1);
  const open = span < 2 * Math.PI - 0.01 && span + step > 2 * Math.PI - 0.01;
  return open ? slices.map((slice) => [...slice, slice[0]]) : slices;
}

/** Between two graphs of the same aircraft and enemy; what has no partner stays as it was. */
function blended(before, after, share) {
  const join = (a, b) => (a.length === b.length ? a.map((point, i) => ({
    ...point, x: mix(point.x, b[i].x, share), y: mix(point.y, b[i].y, share),
  })) : a);
  const lines = {};
  for (const name of Object.keys(before.lines)) lines[name] = join(before.lines[name], after.lines[name]);
  const slices = before.cone.slices.map((slice, row) => join(slice, after.cone.slices[row] || slice));
  const missiles = before.missiles.map((missile) => {
    const partner = after.missiles.find((other) => other.id === missile.id);
    return partner ? { ...missile, line: joinedEnds(missile.line, partner.line, share) } : missile;
  });
  return {
    ...before, lines, missiles, cone: { ...before.cone, slices },
    margins: blendedNumbers(before.margins, after.margins, share),
  };
}

/** Missile lines get shorter as they come true: their common part is blended. */
function joinedEnds(a, b, share) {
  const count = Math.min(a.length, b.length);
  const points = a.slice(0, count).map((point, i) => ({
    t: mix(point.t, b[i].t, share), x: mix(point.x, b[i].x, share), y: mix(point.y, b[i].y, share),
  }));
  return share < 0.5 ? [...points, ...a.slice(count)] : [...points, ...b.slice(count)];
}

function blendedNumbers(a, b, share) {
  return a && b ? a.map((value, i) => mix(value, b[i], share)) : a;
}
