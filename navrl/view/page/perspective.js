"use strict";
/* A camera around a box: two axes in metres on the map, and time hanging down from now. */

const DISTANCE = 4.4; // of the camera, in half widths of the box, as
const DEPTH = 1.3; // which stands for the whole horizon
const VIEW = { yaw: -0.5, pitch: 0.5, zoom: 1 };

class Perspective {
  constructor(canvas, changed) {
    this.canvas = canvas;
    this.view = { ...VIEW };
    this.changed = changed;
    trackPointers(canvas, {
      drag: (dx, dy) => this.turn(dx * 0.009, dy * 0.006),
      zoom: (factor) => this.zoom(factor),
      tap: () => {},
    });
  }

  turn(yaw, pitch) {
    this.view.yaw += yaw;
    this.view.pitch = clamp(this.view.pitch + pitch, 0.05, 1.45);
    this.changed();
  }

  zoom(factor) {
    this.view.zoom = clamp(this.view.zoom * factor, 0.5, 6);
    this.changed();
  }

  reset() {
    this.view = { ...VIEW };
    this.changed();
  }

  /** Look at the box around these points {x, y}, with this much future. */
  aim(points, horizon) {
    Object.assign(this, sized(this.canvas));
    const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
    const [left, right] = [Math.min(...xs), Math.max(...xs)];
    const [bottom, top] = [Math.min(...ys), Math.max(...ys)];
    this.middle = { x: (left + right) / 2, y: (bottom + top) / 2 };
    this.half = Math.max(8000, (right - left) / 2, (top - bottom) / 2);
    this.horizon = horizon;
    this.fit();
  }

  corners() {
    const { x, y } = this.middle;
    return [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([a, b]) => [x + a * this.half, y + b * this.half]);
  }

  /** As large as the box fits whichever way it is turned, between the title and the legend. */
  fit() {
    this.shift = { x: 0, y: 0 };
    this.focal = 1;
    const yaw = this.view.yaw;
    const ends = [0, Math.PI / 4].flatMap((turn) => {
      this.view.yaw = turn;
      const corners = this.corners();
      return [0, this.horizon].flatMap((t) => corners.map(([x, y]) => this.project(x, y, t)));
    });
    this.view.yaw = yaw;
    const [xs, ys] = [ends.map((end) => end.x), ends.map((end) => end.y)];
    const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
    const [above, below] = [40, 34];
    const room = { x: this.width - 76, y: this.height - above - below };
    const scale = Math.min(room.x / (Math.max(...xs) - Math.min(...xs)), room.y / (bottom - top));
    this.focal = scale * this.view.zoom;
    this.shift = { x: this.width / 2 + 16, y: above + room.y / 2 - ((top + bottom) / 2) * this.focal };
  }

  /** Screen x, y and distance of a point {x, y, t}. */
  project(x, y, t) {
    const { yaw, pitch } = this.view;
    const [dx, dy] = [(x - this.middle.x) / this.half, (y - this.middle.y) / this.half];
    const across = dx * Math.cos(yaw) - dy * Math.sin(yaw);
    const away = dx * Math.sin(yaw) + dy * Math.cos(yaw);
    const up = (0.5 - t / this.horizon) * DEPTH;
    const far = Math.max(0.3, DISTANCE + away * Math.cos(pitch) - up * Math.sin(pitch));
    const height = up * Math.cos(pitch) + away * Math.sin(pitch);
    return {
      x: this.shift.x + (across * this.focal) / far,
      y: this.shift.y - (height * this.focal) / far,
      far,
    };
  }
}
