"use strict";
/* A trip from above: the world, everything that moves, the lidar, the path so far. */

const TRIP_SIZES = { least: 13, closest: 2, farthest: 200, scaleText: metresText }; // metres of the map that are shown
const AHEAD_S = 1; // the camera looks where the drone will be
const ARROW_S = 0.8; // an arrow is as long as what is flown in this time
const MARGIN = 16; // pixels, like all lengths below
const FOOT = 90; // where legends and scale lie

class NavigationMap {
  constructor(canvas, half, changed) {
    this.half = half;
    this.plane = new Plane(canvas, changed, () => {}, TRIP_SIZES);
    this.whole = false; // the whole route, instead of following the drone
    this.ring = "nearest";
  }

  /** True while the camera is still on its way. */
  draw(trip, now, step) {
    const { plane } = this;
    [this.trip, this.now] = [trip, now];
    plane.begin();
    const moving = this.whole
      ? plane.follow(boundsOfTrip(trip), step, FOOT)
      : plane.follow(boundsOfDrone(now, this.room()), step);
    plane.begin();
    this.pen = plane.pen;
    plane.drawGrid();
    this.drawLimits();
    this.drawSolids();
    this.drawEnds();
    drawLidar(this.pen, plane, trip, now, this.ring);
    this.drawPath();
    this.drawMovers(trip.moversAt(now));
    if (now.time >= trip.duration) this.drawEnding();
    this.drawDrone();
    if (!this.whole && !plane.byHand) this.drawInset();
    if (!this.goalInSight()) this.drawGoalPointer();
    plane.drawScale();
    return moving;
  }

  /** Metres either side of the drone: all of its lidar, and half as much again. */
  room() {
    return Math.max(TRIP_SIZES.least / 2, 1.5 * this.trip.params.lidarRange);
  }

  // ---- the world ----------------------------------------------------------------------------------

  drawLimits() {
    const { sideLimit } = this.trip.params;
    if (sideLimit === null) return;
    const { pen, plane } = this;
    pen.strokeStyle = tint(OUTCOME_COLOURS.outside, 0.6);
    pen.lineWidth = 1.5;
    pen.setLineDash([8, 6]);
    pen.strokeRect(
      plane.toX(-sideLimit), plane.toY(sideLimit), 2 * sideLimit * plane.scale, 2 * sideLimit * plane.scale,
    );
    pen.setLineDash([]);
  }

  drawSolids() {
    const { pen, plane, now } = this;
    const { bodyRadius } = this.trip.params;
    const seen = this.trip.landscape.solids.filter((solid) => (
      Math.abs(plane.toX(solid.x) - plane.width / 2) < plane.width / 2 + solid.reach * plane.scale
      && Math.abs(plane.toY(solid.y) - plane.height / 2) < plane.height / 2 + solid.reach * plane.scale
    ));
    for (const relation of ["below", "level", "above"]) {
      for (const solid of seen) {
        if (relationTo(solid, now.z, bodyRadius) === relation) drawSolid(pen, plane, solid, relation);
      }
    }
  }

  drawEnds() {
    const { pen, plane, trip } = this;
    const [gx, gy] = [plane.toX(trip.goal.x), plane.toY(trip.goal.y)];
    const radius = Math.max(5, trip.params.goalRadius * plane.scale);
    const colour = OUTCOME_COLOURS.success;
    dot(pen, gx, gy, radius);
    pen.fillStyle = tint(colour, 0.2);
    pen.fill();
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.stroke();
    dot(pen, gx, gy, 2);
    pen.fillStyle = colour;
    pen.fill();
    const [sx, sy] = [plane.toX(trip.start.x), plane.toY(trip.start.y)];
    dot(pen, sx, sy, 5);
    pen.strokeStyle = tint(THEME.text, 0.8);
    pen.lineWidth = 1.5;
    pen.stroke();
    this.label("goal", gx, gy + radius + 9, colour);
    this.label("start", sx, sy + 15, tint(THEME.text, 0.8));
  }

  label(text, x, y, colour) {
    const { pen } = this;
    pen.font = `600 12px ${THEME.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    outlined(pen, text, x, y, colour);
  }

  // ---- the path -----------------------------------------------------------------------------------

  drawPath() {
    const { pen, plane, trip, now } = this;
    pen.lineJoin = pen.lineCap = "round";
    pen.strokeStyle = tint(SHIELD_COLOUR, 0.55);
    pen.lineWidth = 9;
    for (const { from, to } of trip.interventions) {
      if (from < now.time) plane.trace(pathBetween(trip, from, Math.min(to, now.time)));
    }
    const points = pathBetween(trip, 0, now.time);
    pen.lineWidth = 3;
    let first = 0;
    for (let i = 1; i < points.length; i += 1) {
      const colour = speedColour(points[i].speed, trip.params.speedLimit);
      const next = i + 1 < points.length ? speedColour(points[i + 1].speed, trip.params.speedLimit) : null;
      if (next === colour) continue;
      pen.strokeStyle = colour;
      plane.trace(points.slice(first, i + 1));
      first = i;
    }
    pen.lineCap = "butt";
  }

  // ---- drone and moving obstacles ---------------------------------------------------------------------------------

  drawMovers(movers) {
    const { pen, plane, now } = this;
    for (const mover of movers.reverse()) {
      const [x, y] = [plane.toX(mover.x), plane.toY(mover.y)];
      if (mover.near) {
        pen.strokeStyle = tint(MOVER_COLOUR, 0.45);
        pen.lineWidth = 1;
        pen.setLineDash([2, 4]);
        plane.trace([now, mover]);
        pen.setLineDash([]);
      }
      dot(pen, x, y, Math.max(2, mover.radius * plane.scale));
      pen.fillStyle = tint(MOVER_COLOUR, mover.level ? (mover.near ? 0.62 : 0.3) : 0.1);
      pen.fill();
      pen.strokeStyle = mover.near ? THEME.flame : tint(MOVER_COLOUR, mover.level ? 0.8 : 0.4);
      pen.lineWidth = mover.near ? 2 : 1.2;
      pen.setLineDash(mover.column ? [] : [4, 3]);
      pen.stroke();
      pen.setLineDash([]);
      this.arrow(mover, MOVER_COLOUR, mover.level ? 0.95 : 0.45);
    }
  }

  /** An arrow as long as the way of the next moment, from the centre. */
  arrow({ x, y, vx, vy }, colour, alpha) {
    const { pen, plane } = this;
    const [dx, dy] = [vx * ARROW_S * plane.scale, -vy * ARROW_S * plane.scale];
    pen.strokeStyle = pen.fillStyle = tint(colour, alpha);
    arrowOf(pen, plane.toX(x), plane.toY(y), dx, dy);
  }

  /** The drone in full size, and a symbol within it. */
  drawDrone() {
    const { pen, plane, now, trip } = this;
    const [x, y] = [plane.toX(now.x), plane.toY(now.y)];
    const radius = Math.max(6, trip.params.bodyRadius * plane.scale);
    this.arrow(now, "#ffffff", 0.95);
    dot(pen, x, y, radius);
    pen.fillStyle = tint("#ffffff", 0.2);
    pen.fill();
    pen.strokeStyle = now.changed ? SHIELD_COLOUR : "#ffffff";
    pen.lineWidth = now.changed ? 4 : 2;
    pen.stroke();
    pen.lineWidth = Math.max(1.5, radius / 7);
    pen.strokeStyle = "#ffffff";
    for (const turn of [1, 3, 5, 7]) {
      const angle = (turn * Math.PI) / 4 - now.beam0;
      const [rx, ry] = [x + 0.56 * radius * Math.cos(angle), y + 0.56 * radius * Math.sin(angle)];
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(rx, ry);
      pen.stroke();
      dot(pen, rx, ry, 0.26 * radius);
      pen.fillStyle = THEME.background;
      pen.fill();
      pen.stroke();
    }
    if (now.changed && now.time < trip.duration) this.label("shield", x, y - radius - 12, SHIELD_COLOUR);
  }

  drawEnding() {
    const { pen, plane, trip, now } = this;
    const [x, y] = [plane.toX(now.x), plane.toY(now.y)];
    pen.strokeStyle = tint(OUTCOME_COLOURS[trip.endedBy], 0.9);
    pen.lineWidth = 3;
    const radius = Math.max(6, trip.params.bodyRadius * plane.scale);
    for (const more of [8, 15]) {
      dot(pen, x, y, radius + more);
      pen.stroke();
      pen.lineWidth = 1.5;
    }
  }

  // ---- positions ------------------------------------------------------------------------

  goalInSight() {
    const { plane, trip } = this;
    const [x, y] = [plane.toX(trip.goal.x), plane.toY(trip.goal.y)];
    return x > 0 && y > 0 && x < plane.width && y < plane.height;
  }

  /** At the edge, in the direction of the goal. */
  drawGoalPointer() {
    const { pen, plane, trip, now } = this;
    const [x, y] = [plane.toX(now.x), plane.toY(now.y)];
    const [dx, dy] = [plane.toX(trip.goal.x) - x, plane.toY(trip.goal.y) - y];
    const room = [dx > 0 ? plane.width - MARGIN - x : x - MARGIN, dy > 0 ? plane.height - MARGIN - y : y - MARGIN];
    const share = Math.min(room[0] / Math.abs(dx), room[1] / Math.abs(dy));
    const [px, py] = [x + dx * share, y + dy * share];
    pen.save();
    pen.translate(px, py);
    pen.rotate(Math.atan2(dy, dx));
    pen.fillStyle = OUTCOME_COLOURS.success;
    pen.beginPath();
    pen.moveTo(9, 0);
    pen.lineTo(-7, 8);
    pen.lineTo(-7, -8);
    pen.fill();
    pen.restore();
    const away = Math.hypot(dx, dy);
    const text = `goal ${now.distance.toFixed(0)} m`;
    this.label(text, px - (dx / away) * 46, py - (dy / away) * 22, OUTCOME_COLOURS.success);
  }

  drawInset() {
    const { pen, plane, trip, now } = this;
    const size = clamp(0.3 * Math.min(plane.width, plane.height), 96, 190);
    const [left, top] = [plane.width - size - 10, plane.height - size - 10];
    pen.fillStyle = tint(THEME.background, 0.94);
    pen.fillRect(left, top, size, size);
    pen.save();
    pen.beginPath();
    pen.rect(left, top, size, size);
    pen.clip();
    const picture = new Miniature(left, top, size, this.half);
    picture.drawWorld(pen, trip.landscape.solids, 0.75);
    picture.drawTrip(pen, trip, now.time, "#ffffff", 1.6);
    const [wide, high] = [plane.width, plane.height].map((pixels) => (pixels / plane.scale) * picture.scale);
    pen.strokeStyle = tint(THEME.text, 0.55);
    pen.lineWidth = 1;
    pen.strokeRect(picture.toX(plane.camera.x) - wide / 2, picture.toY(plane.camera.y) - high / 2, wide, high);
    pen.restore();
    pen.lineWidth = 1;
    pen.strokeStyle = "#2b3847";
    pen.strokeRect(left, top, size, size);
  }
}

function pathBetween(trip, from, to) {
  const inner = [];
  for (let knot = 0; knot < trip.t.length; knot += 1) {
    const time = trip.t[knot];
    if (time <= from || time >= to) continue;
    inner.push({ x: trip.x[knot], y: trip.y[knot], speed: trip.speeds[knot] });
    const half = (time + (trip.t[knot + 1] ?? time)) / 2;
    if (half > time && half < to) inner.push(trip.at(half));
  }
  return [trip.at(from), ...inner, trip.at(to)];
}

function boundsOfDrone({ x, y, vx, vy }, room) {
  const [aheadX, aheadY] = [x + vx * AHEAD_S, y + vy * AHEAD_S];
  return { left: aheadX - room, right: aheadX + room, bottom: aheadY - room, top: aheadY + room };
}

function boundsOfTrip({ start, goal, x, y }) {
  const [xs, ys] = [[start.x, goal.x, ...x], [start.y, goal.y, ...y]];
  return {
    left: Math.min(...xs) - 1, right: Math.max(...xs) + 1, bottom: Math.min(...ys) - 1, top: Math.max(...ys) + 1,
  };
}
