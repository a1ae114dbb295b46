"use strict";
/* The obstacles of a world, seen from above: on the map, and in miniature. */

const TALL_M = 6; // and more: the brightest
const [LOW_COLOUR, TALL_COLOUR] = ["#24384d", "#a9c0d8"];
const HEIGHT_COLOURS = Array.from({ length: 13 }, (_, i) => towards(LOW_COLOUR, TALL_COLOUR, i / 12));
const SPEED_STOPS = ["#3f6fd8", "#27b3c2", "#58d68d", "#f4e04d"];
const SPEED_COLOURS = Array.from({ length: 25 }, (_, i) => {
  const place = (i / 24) * (SPEED_STOPS.length - 1);
  const stop = Math.min(Math.floor(place), SPEED_STOPS.length - 2);
  return towards(SPEED_STOPS[stop], SPEED_STOPS[stop + 1], place - stop);
});
const OUTCOME_COLOURS = {
  success: "#58d6a0", collision_static: "#ff6f5e", collision_moving: "#ffb454",
  outside: "#b795ff", timeout: "#c9d4df",
};
const SHIELD_COLOUR = "#ff7fc4";
const MOVER_COLOUR = OUTCOME_COLOURS.collision_moving;
const LIDAR_COLOUR = "#6fe3f5";

/** Boxes and cylinders alike: {x, y, reach, bottom, top, corners or null}. */
function solidsOf({ boxes, cylinders }) {
  const found = boxes.map(([x, y, halfX, halfY, yaw, bottom, top]) => {
    const [cos, sin] = [Math.cos(yaw / 1000), Math.sin(yaw / 1000)];
    const corners = [[1, 1], [-1, 1], [-1, -1], [1, -1]].map(([a, b]) => ({
      x: (x + a * halfX * cos - b * halfY * sin) / 100, y: (y + a * halfX * sin + b * halfY * cos) / 100,
    }));
    return { x: x / 100, y: y / 100, reach: Math.hypot(halfX, halfY) / 100, corners, bottom: bottom / 100, top: top / 100 };
  });
  for (const row of cylinders) {
    const [x, y, reach, bottom, top] = inMetres(row);
    found.push({ x, y, reach, corners: null, bottom, top });
  }
  return found.sort((a, b) => a.top - b.top);
}

/** The outline of a solid as the path of the pen; view: {toX, toY, scale}. */
function outline(pen, view, { x, y, reach, corners }) {
  pen.beginPath();
  if (corners === null) {
    pen.arc(view.toX(x), view.toY(y), Math.max(0.5, reach * view.scale), 0, 2 * Math.PI);
  } else {
    for (const corner of corners) pen.lineTo(view.toX(corner.x), view.toY(corner.y));
    pen.closePath();
  }
}

function heightColour(top) {
  return HEIGHT_COLOURS[Math.round(clamp(top / TALL_M, 0, 1) * (HEIGHT_COLOURS.length - 1))];
}

function speedColour(speed, fastest) {
  return SPEED_COLOURS[Math.round(clamp(speed / fastest, 0, 1) * (SPEED_COLOURS.length - 1))];
}

/** The place of an obstacle relative to the drone: "below", "above" or "level". */
function relationTo({ bottom, top }, z, radius) {
  if (top < z - radius) return "below";
  return bottom > z + radius ? "above" : "level";
}

/** One solid on the map; what hangs in the air is dashed and crossed, and what is not level is pale. */
function drawSolid(pen, view, solid, relation) {
  const floating = solid.bottom > 0;
  outline(pen, view, solid);
  pen.fillStyle = heightColour(solid.top);
  pen.globalAlpha = { level: 1, below: 0.3, above: 0.16 }[relation];
  pen.fill();
  pen.globalAlpha = relation === "level" ? 0.95 : 0.42;
  pen.lineWidth = 1;
  pen.strokeStyle = floating ? "#dfe8f1" : "#7f95ab";
  pen.setLineDash(floating ? [4, 3] : []);
  pen.stroke();
  if (floating) crossOut(pen, view, solid);
  pen.setLineDash([]);
  pen.globalAlpha = 1;
}

function crossOut(pen, view, { x, y, reach, corners }) {
  const half = reach * Math.SQRT1_2;
  const ends = corners || [[1, 1], [-1, 1], [-1, -1], [1, -1]].map(([a, b]) => ({ x: x + a * half, y: y + b * half }));
  pen.beginPath();
  for (const [a, b] of [[0, 2], [1, 3]]) {
    pen.moveTo(view.toX(ends[a].x), view.toY(ends[a].y));
    pen.lineTo(view.toX(ends[b].x), view.toY(ends[b].y));
  }
  pen.stroke();
}

/** A square picture of a whole world, half metres wide from the middle, with its corner at left, top. */
class Miniature {
  constructor(left, top, size, half) {
    Object.assign(this, { left, top, size, half, scale: size / (2 * half) });
  }

  toX(x) {
    return this.left + (x + this.half) * this.scale;
  }

  toY(y) {
    return this.top + (this.half - y) * this.scale;
  }

  drawWorld(pen, solids, alpha) {
    pen.globalAlpha = alpha;
    for (const solid of solids) {
      outline(pen, this, solid);
      pen.fillStyle = heightColour(solid.top);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  /** Start, goal and the path, pale where it has yet to be flown; colourOf(knot) or one colour. */
  drawTrip(pen, trip, time, colour, width) {
    this.drawGoal(pen, trip);
    pen.lineJoin = "round";
    pen.lineWidth = width;
    pen.strokeStyle = colour;
    pen.globalAlpha = 0.38;
    this.trace(pen, trip, 0, trip.t.length);
    pen.globalAlpha = 1;
    const now = trip.at(time);
    if (time > 0) this.trace(pen, trip, 0, now.b, now);
    const [x, y] = [this.toX(trip.start.x), this.toY(trip.start.y)];
    pen.fillStyle = THEME.background;
    pen.strokeStyle = THEME.text;
    pen.lineWidth = 1.2;
    dot(pen, x, y, 1.2 * width);
    pen.fill();
    pen.stroke();
    return now;
  }

  trace(pen, trip, from, to, last) {
    pen.beginPath();
    for (let knot = from; knot < to; knot += 1) pen.lineTo(this.toX(trip.x[knot]), this.toY(trip.y[knot]));
    if (last) pen.lineTo(this.toX(last.x), this.toY(last.y));
    pen.stroke();
  }

  drawGoal(pen, { goal }) {
    const [x, y] = [this.toX(goal.x), this.toY(goal.y)];
    pen.strokeStyle = OUTCOME_COLOURS.success;
    pen.lineWidth = 1.5;
    dot(pen, x, y, 4);
    pen.stroke();
    pen.fillStyle = OUTCOME_COLOURS.success;
    dot(pen, x, y, 1.5);
    pen.fill();
  }
}

/** The outcome of a trip as a sign: a disc, a cross, a ring with a cross, a triangle, a square. */
function drawEnding(pen, x, y, kind, size) {
  pen.strokeStyle = pen.fillStyle = OUTCOME_COLOURS[kind];
  pen.lineWidth = Math.max(1.5, size / 2.6);
  pen.lineCap = "round";
  if (kind === "success") {
    dot(pen, x, y, size * 0.8);
    pen.fill();
  } else if (kind === "outside" || kind === "timeout") {
    pen.beginPath();
    const turns = kind === "outside" ? 3 : 4;
    for (let i = 0; i < turns; i += 1) {
      const angle = (2 * Math.PI * (i + 0.5)) / turns + Math.PI / 2;
      pen.lineTo(x + size * Math.cos(angle), y + size * Math.sin(angle));
    }
    pen.closePath();
    pen.fill();
  } else {
    if (kind === "collision_moving") {
      dot(pen, x, y, size * 1.5);
      pen.stroke();
    }
    pen.beginPath();
    for (const sign of [-1, 1]) {
      pen.moveTo(x - size, y - sign * size);
      pen.lineTo(x + size, y + sign * size);
    }
    pen.stroke();
  }
  pen.lineCap = "butt";
}
