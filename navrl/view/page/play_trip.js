"use strict";
/* A flight of a drone while it is flown: frames of the simulator come in, between them everything flies on. */

class LiveTrip extends Trip {
  constructor(opening) {
    const landscape = { solids: solidsOf(opening.landscapes[0]) };
    super(opening.trips[0], 0, opening, [landscape]);
    this.kinds = opening.movers;
    this.flying = new Map(); // moving obstacles in sight: which -> {before, after}
    this.levels = unpackedRanges(this.scans, this.size);
    this.isOver = false;
    this.duration = Infinity;
  }

  get size() {
    return this.params.beams * this.params.elevations.length;
  }

  get latest() {
    return this.t[this.t.length - 1];
  }

  frame({ t, place, velocity, beam0, scan, clearance, changed, movers, over }) {
    ["x", "y", "z"].forEach((axis, i) => {
      this[axis].push(place[i]);
      this[`v${axis}`].push(velocity[i]);
    });
    const last = this.beam0[this.beam0.length - 1];
    const turned = Math.atan2(Math.sin(beam0 - last), Math.cos(beam0 - last));
    this.beam0.push(last + turned);
    this.clearance.push(clearance);
    this.changed.push(changed);
    this.speeds.push(Math.hypot(...velocity));
    this.distances.push(Math.hypot(this.goal.x - place[0], this.goal.y - place[1], this.goal.z - place[2]));
    if (changed) this.interventions.push({ from: this.latest, to: t });
    this.t.push(t);
    this.levels = unpackedRanges(scan, this.size);
    this.see(t, movers);
    if (over) this.duration = t;
    this.isOver = over;
  }

  see(t, movers) {
    const seen = new Map();
    for (const [which, x, y, z] of movers) {
      const before = this.flying.get(which);
      seen.set(which, { before: before ? before.after : null, after: { t, x, y, z } });
    }
    this.flying = seen;
  }

  /** After the last knot as fast as it was there. */
  at(time) {
    const now = super.at(Math.min(time, this.latest));
    const span = this.isOver ? 0 : Math.max(0, time - this.latest);
    return { ...now, time, x: now.x + now.vx * span, y: now.y + now.vy * span, z: now.z + now.vz * span };
  }

  scanAt() {
    const metres = this.params.lidarRange / (DIGITS.length - 1);
    return Array.from(this.levels, (level) => (level === FREE ? Infinity : level * metres));
  }

  moversAt(now) {
    const { nearCount, nearRange, bodyRadius } = this.params;
    const found = [...this.flying].map(([index, { before, after }]) => {
      const span = before ? after.t - before.t : 0;
      const [vx, vy] = span > 0 ? [(after.x - before.x) / span, (after.y - before.y) / span] : [0, 0];
      const since = this.isOver ? 0 : now.time - after.t;
      const place = { x: after.x + vx * since, y: after.y + vy * since, z: after.z, vx, vy };
      const { radius, column, halfHeight } = this.kinds;
      const level = Boolean(column[index]) || Math.abs(place.z - now.z) <= halfHeight + bodyRadius;
      const away = Math.hypot(place.x - now.x, place.y - now.y);
      return { index, radius: radius[index], column: Boolean(column[index]), ...place, away, level, near: false };
    });
    found.sort((a, b) => a.away - b.away);
    for (const mover of found.slice(0, nearCount)) mover.near = mover.away <= nearRange;
    return found;
  }
}

/** The lidar as a band around the drone, ring over ring: near is bright, free is dark; the flight goes up. */
function drawPanorama(canvas, trip, now) {
  const { pen, width, height } = sized(canvas);
  const scan = trip.scanAt();
  const { beams, elevations, lidarRange } = trip.params;
  const [x, y] = [width / 2, height / 2 + 8];
  const [inner, outer] = [0.32, 0.86].map((share) => share * Math.min(width, height - 30) * 0.55);
  const thick = (outer - inner) / elevations.length;
  const course = Math.hypot(now.vx, now.vy) > 0.1 ? Math.atan2(now.vy, now.vx) : now.beam0;
  for (let ring = 0; ring < elevations.length; ring += 1) {
    for (let beam = 0; beam < beams; beam += 1) {
      const range = scan[ring * beams + beam];
      const turned = now.beam0 + (2 * Math.PI * beam) / beams - course + Math.PI / 2;
      const half = (0.94 * Math.PI) / beams;
      const near = range === Infinity ? 0 : 1 - range / lidarRange;
      pen.fillStyle = near ? tint(near > 0.8 ? "#ff5d7d" : LIDAR_COLOUR, 0.15 + 0.85 * near) : tint(THEME.grid, 0.07);
      pen.beginPath();
      pen.arc(x, y, inner + (ring + 0.92) * thick, -turned - half, -turned + half);
      pen.arc(x, y, inner + ring * thick, -turned + half, -turned - half, true);
      pen.fill();
    }
  }
  pen.fillStyle = "#ffffff";
  pen.beginPath();
  pen.moveTo(x, y - 12);
  pen.lineTo(x + 8, y + 9);
  pen.lineTo(x - 8, y + 9);
  pen.fill();
}
