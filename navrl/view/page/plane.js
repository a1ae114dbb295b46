"use strict";
/* A map that can be moved: camera, mouse and fingers, grid, scale. x goes east, y north, metres. */

const EDGE = 46; // pixels along the border in which no aircraft should be: buttons lie there
const SETTLE = 0.35; // seconds in which the camera does most of its way

/** 500 -> "500 m", 2000 -> "2 km" */
function metresText(metres) {
  return metres >= 1000 ? `${metres / 1000} km` : `${metres} m`;
}

class Plane {
  /** changed(): the camera was moved by hand; tapped(x, y): a short touch, in pixels of the canvas;
      sizes: {least, closest, farthest}, metres across the shorter side: of itself, and by hand; and
      scaleText(metres), what is written at the scale. */
  constructor(canvas, changed, tapped, sizes) {
    this.canvas = canvas;
    this.changed = changed;
    this.sizes = sizes;
    this.camera = { x: 0, y: 0, size: sizes.least };
    this.byHand = false;
    trackPointers(canvas, {
      drag: (dx, dy) => this.pan(dx, dy),
      zoom: (factor, x, y) => this.zoom(factor, x, y),
      tap: tapped,
    });
  }

  begin() {
    Object.assign(this, sized(this.canvas));
    this.scale = Math.min(this.width, this.height) / this.camera.size;
  }

  toX(x) {
    return this.width / 2 + (x - this.camera.x) * this.scale;
  }

  toY(y) {
    return this.height / 2 - (y - this.camera.y) * this.scale;
  }

  /** Move on towards a view of the box {left, right, bottom, top}, above a foot of so many pixels where
      legends lie; true while it still moves. */
  follow(box, step, foot = EDGE) {
    if (this.byHand) return false;
    const short = Math.min(this.width, this.height) || 1;
    const across = Math.max(
      ((box.right - box.left) * short) / Math.max(1, this.width - 2 * EDGE),
      ((box.top - box.bottom) * short) / Math.max(1, this.height - EDGE - foot),
    );
    const size = Math.max(this.sizes.least, across * 1.1);
    const aim = {
      x: (box.left + box.right) / 2,
      y: (box.bottom + box.top) / 2 - ((foot - EDGE) / 2) * (size / short),
      size,
    };
    const share = 1 - Math.exp(-step / SETTLE);
    let off = 0;
    for (const name of Object.keys(aim)) {
      this.camera[name] = mix(this.camera[name], aim[name], share);
      off = Math.max(off, Math.abs(aim[name] - this.camera[name]));
    }
    return off * this.scale > 0.5;
  }

  release() {
    this.byHand = false;
    this.changed();
  }

  pan(dx, dy) {
    this.byHand = true;
    this.camera.x -= dx / this.scale;
    this.camera.y += dy / this.scale;
    this.changed();
  }

  /** Zoom so that what is under the pointer stays there. */
  zoom(factor, x, y) {
    this.byHand = true;
    const size = clamp(this.camera.size / factor, this.sizes.closest, this.sizes.farthest);
    const move = (this.camera.size - size) / Math.min(this.width, this.height);
    this.camera.x += (x - this.width / 2) * move;
    this.camera.y -= (y - this.height / 2) * move;
    this.camera.size = size;
    this.changed();
  }

  // ---- drawing ----------------------------------------------------------------------------------

  /** The grid's spacing: 1, 2 or 5 times a power of ten, at least 64 pixels. */
  spacing() {
    const least = 64 / this.scale;
    const power = 10 ** Math.floor(Math.log10(least));
    return power * [1, 2, 5, 10].find((factor) => factor * power >= least);
  }

  drawGrid() {
    const { pen } = this;
    const step = this.spacing();
    const halfWidth = this.width / 2 / this.scale;
    const halfHeight = this.height / 2 / this.scale;
    pen.lineWidth = 1;
    for (let i = Math.ceil((this.camera.x - halfWidth) / step); i * step < this.camera.x + halfWidth; i += 1) {
      this.rule(i, this.toX(i * step), 0, 0, this.height);
    }
    for (let i = Math.ceil((this.camera.y - halfHeight) / step); i * step < this.camera.y + halfHeight; i += 1) {
      this.rule(i, 0, this.toY(i * step), this.width, 0);
    }
  }

  rule(index, x, y, dx, dy) {
    const { pen } = this;
    pen.strokeStyle = tint(THEME.grid, index % 5 === 0 ? 0.16 : 0.07);
    pen.beginPath();
    pen.moveTo(Math.round(x) + 0.5, Math.round(y) + 0.5);
    pen.lineTo(Math.round(x + dx) + 0.5, Math.round(y + dy) + 0.5);
    pen.stroke();
  }

  drawScale() {
    const { pen } = this;
    const step = this.spacing();
    const length = step * this.scale;
    const [x, y] = [16, this.height - 16];
    pen.strokeStyle = tint(THEME.text, 0.7);
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x, y - 5);
    pen.lineTo(x, y);
    pen.lineTo(x + length, y);
    pen.lineTo(x + length, y - 5);
    pen.stroke();
    pen.fillStyle = tint(THEME.text, 0.8);
    pen.font = `12px ${THEME.font}`;
    pen.textAlign = "left";
    pen.textBaseline = "alphabetic";
    pen.fillText(this.sizes.scaleText(step), x + 6, y - 6);
  }

  /** A line through points {x, y} in metres. */
  trace(points) {
    const { pen } = this;
    pen.beginPath();
    for (const { x, y } of points) pen.lineTo(this.toX(x), this.toY(y));
    pen.stroke();
  }
}
