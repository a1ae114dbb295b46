"use strict";
/* The picture of a world: shapes over time, in its units, with x to the right and y up. */

const LEAST_DOT = 2.5; // pixels, like all lengths below
const LATELY = 0.2; // the part of an episode whose way is drawn stronger
const TRANSLUCENT = { goal: 0.3, danger: 0.3, obstacle: 0.5, quiet: 0.14 };
const ROLES = {
  agent: () => toneOf(0),
  opponent: () => toneOf(1),
  goal: () => toneOf(2),
  danger: () => THEME.danger,
  obstacle: () => THEME.obstacle,
  quiet: () => THEME.grid,
  text: () => THEME.text,
};

/** One shape of the recording: `count` instances, each with points and numbers over time. */
class Shape {
  constructor(raw, unit) {
    Object.assign(this, raw);
    const decoded = (track) => summed(track).map((whole) => whole * unit);
    this.points = raw.points.map((points) => points.map(([x, y]) => ({ x: decoded(x), y: decoded(y) })));
    this.count = this.points.length;
  }

  /** Everything about an instance at a time: between two steps points glide, and nothing else changes. */
  at(index, time) {
    const step = Math.floor(time + 1e-6);
    return {
      index,
      points: this.points[index].map(({ x, y }) => ({ x: between(x, time), y: between(y, time) })),
      radius: between([].concat(this.radius[index]), time),
      visible: valueAt(this.visible[index], step) > 0,
      colour: this.colourOf(index, step),
    };
  }

  colourOf(index, step) {
    if (typeof this.colour === "string") return ROLES[this.colour]();
    const number = valueAt(this.colour[index], step);
    return number < 0 ? ROLES.quiet() : toneOf(number);
  }

  /** The colour of all instances at all times, null if there are several. */
  ownColour() {
    if (typeof this.colour === "string") return ROLES[this.colour]();
    return new Set(this.colour.flat()).size === 1 ? this.colourOf(0, 0) : null;
  }

  /** How opaque an area is. */
  opacity(index, step) {
    if (typeof this.colour === "string") return TRANSLUCENT[this.colour] ?? 0.95;
    return valueAt(this.colour[index], step) < 0 ? 0.3 : 0.95;
  }

  /** The way of the first point from one time to another. */
  way(index, from, to) {
    const [{ x, y }] = this.points[index];
    const inner = [];
    for (let step = Math.ceil(from); step < to; step += 1) inner.push({ x: valueAt(x, step), y: valueAt(y, step) });
    return [...inner, { x: between(x, to), y: between(y, to) }];
  }

  /** The box {left, right, bottom, top} of all instances at all times. */
  bounds() {
    const box = { left: Infinity, right: -Infinity, bottom: Infinity, top: -Infinity };
    this.points.forEach((points, index) => {
      const room = [].concat(this.radius[index]).reduce((a, b) => Math.max(a, b), 0);
      for (const { x, y } of points) {
        for (const value of x) [box.left, box.right] = [Math.min(box.left, value - room), Math.max(box.right, value + room)];
        for (const value of y) [box.bottom, box.top] = [Math.min(box.bottom, value - room), Math.max(box.top, value + room)];
      }
    });
    return box;
  }
}

/** A number, or the one of this step in a list; a list of one counts for every step. */
function valueAt(values, step) {
  if (!Array.isArray(values)) return values;
  return values[Math.min(step, values.length - 1)];
}

function between(values, time) {
  const step = Math.floor(time);
  return mix(valueAt(values, step), valueAt(values, step + 1), time - step);
}

/** The box around all shapes, with room for each of them. */
function boundsOfShapes(shapes) {
  const boxes = shapes.map((shape) => shape.bounds());
  const [left, bottom] = ["left", "bottom"].map((side) => Math.min(...boxes.map((box) => box[side])));
  const [right, top] = ["right", "top"].map((side) => Math.max(...boxes.map((box) => box[side])));
  const least = 0.01 * Math.max(right - left, top - bottom) || 1;
  const wider = Math.max(0, least - (right - left));
  const taller = Math.max(0, least - (top - bottom));
  return { left: left - wider / 2, right: right + wider / 2, bottom: bottom - taller / 2, top: top + taller / 2 };
}

class Picture {
  constructor(canvas, shapes, duration, changed) {
    this.shapes = shapes;
    this.duration = duration;
    this.box = boundsOfShapes(shapes);
    const size = Math.max(this.box.right - this.box.left, this.box.top - this.box.bottom);
    this.plane = new Plane(canvas, changed, () => {}, {
      least: size / 100, closest: size / 100, farthest: 8 * size, scaleText: String,
    });
  }

  /** True while the camera is still on its way. */
  draw(time, step) {
    const { plane } = this;
    plane.begin();
    const moving = plane.follow(this.box, step);
    plane.begin();
    this.pen = plane.pen;
    plane.drawGrid();
    for (const shape of this.shapes) if (shape.trail) this.drawTrails(shape, time);
    for (const shape of this.shapes) {
      for (let index = 0; index < shape.count; index += 1) {
        const now = shape.at(index, time);
        if (now.visible) this[`draw${shape.kind}`](shape, now, shape.opacity(index, Math.floor(time)));
      }
    }
    plane.drawScale();
    return moving;
  }

  drawTrails(shape, time) {
    const { pen, plane } = this;
    pen.lineJoin = pen.lineCap = "round";
    pen.lineWidth = 2;
    for (let index = 0; index < shape.count; index += 1) {
      const { colour } = shape.at(index, time);
      for (const [from, opacity] of [[0, 0.25], [Math.max(0, time - LATELY * this.duration), 0.5]]) {
        pen.strokeStyle = tint(colour, opacity);
        plane.trace(shape.way(index, from, time));
      }
    }
    pen.lineCap = "butt";
  }

  drawCircle(shape, { points: [place], radius, colour }, opacity) {
    dot(this.pen, this.plane.toX(place.x), this.plane.toY(place.y), Math.max(LEAST_DOT, radius * this.plane.scale));
    this.paint(shape, colour, opacity);
  }

  drawPolygon(shape, { points, colour }, opacity) {
    this.outline(points);
    this.pen.closePath();
    this.paint(shape, colour, opacity);
  }

  drawLine(shape, { points, colour }) {
    const { pen } = this;
    const strong = typeof shape.colour === "string" && shape.colour !== "quiet";
    pen.strokeStyle = tint(colour, strong ? 0.9 : 0.45);
    pen.lineWidth = strong ? 2 : 1.2;
    pen.lineJoin = "round";
    this.outline(points);
    pen.stroke();
  }

  drawArrow(shape, { points: [tail, head], colour }) {
    const { pen, plane } = this;
    pen.strokeStyle = pen.fillStyle = colour;
    const [x, y] = [plane.toX(tail.x), plane.toY(tail.y)];
    arrowOf(pen, x, y, plane.toX(head.x) - x, plane.toY(head.y) - y);
  }

  drawText(shape, { index, points: [place], colour }) {
    const { pen, plane } = this;
    pen.font = `650 12px ${THEME.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    outlined(pen, shape.words[index], plane.toX(place.x), plane.toY(place.y), colour);
  }

  outline(points) {
    const { pen, plane } = this;
    pen.beginPath();
    for (const { x, y } of points) pen.lineTo(plane.toX(x), plane.toY(y));
  }

  paint(shape, colour, opacity) {
    const { pen } = this;
    if (shape.filled) {
      pen.fillStyle = tint(colour, opacity);
      pen.fill();
    }
    pen.lineWidth = 1.5;
    pen.strokeStyle = tint(colour, shape.filled || shape.colour !== "quiet" ? 1 : 0.5);
    pen.stroke();
  }
}
