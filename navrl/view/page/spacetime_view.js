"use strict";
/* The space-time graph: the map lies flat, the future hangs below it, now is on top. */

const FLOOR_STEP = 5000; // metres between grid lines
const TIME_STEP = 5; // seconds between levels

class Graph3D extends Perspective {
  /** graph from GraphStore.at; aircraft [{x, y, heading, colour, label, strong, side}] are all aircraft now. */
  draw(graph, aircraft, colours) {
    if (!graph) {
      sized(this.canvas);
      return;
    }
    const { lines, cone } = graph;
    this.horizon = lines.current[lines.current.length - 1].t;
    const focus = aircraft.filter((craft) => craft.strong);
    this.aim([...cone.slices[this.lastRow(cone)], ...lines.left, ...lines.right, ...focus], this.horizon);
    this.drawBox();
    this.shapes = [];
    this.addCone(cone, colours.enemy);
    this.addShadows(graph);
    this.addLine(lines.current, THEME.pale, 1.5, 0.9);
    this.addLine(lines.left, THEME.escape, 2.5, 1);
    this.addLine(lines.right, THEME.escape, 2.5, 1);
    for (const missile of graph.missiles) this.addMissile(missile, colours);
    this.paint();
    this.drawEnds(graph);
    for (const craft of aircraft) this.drawAircraft(craft);
    this.drawNames(aircraft.filter((craft) => craft.label));
  }

  /** The row of the cone that is the last one in the box. */
  lastRow(cone) {
    const beyond = cone.times.findIndex((time) => time > this.horizon + 0.01);
    return (beyond < 0 ? cone.times.length : beyond) - 1;
  }

  // ---- the box ------------------------------------------------------------------------------------

  drawBox() {
    for (let t = 0; t <= this.horizon + 0.01; t += TIME_STEP) this.drawLevel(t);
    this.drawFloor(0, 0.05);
    this.drawFloor(this.horizon, 0.1);
  }

  drawLevel(t) {
    const corners = this.corners().map(([x, y]) => this.project(x, y, t));
    this.polygon(corners, null, tint(THEME.grid, t === 0 ? 0.4 : 0.16), 1);
    const left = corners.reduce((a, b) => (b.x < a.x ? b : a));
    this.pen.fillStyle = tint(THEME.text, 0.6);
    this.pen.font = `11px ${THEME.font}`;
    this.pen.textAlign = "right";
    this.pen.textBaseline = "middle";
    this.pen.fillText(t === 0 ? "now" : `${t} s`, Math.max(34, left.x - 6), left.y);
  }

  drawFloor(t, opacity) {
    const { x, y } = this.middle;
    const range = (centre) => {
      const first = Math.ceil((centre - this.half) / FLOOR_STEP);
      const last = Math.floor((centre + this.half) / FLOOR_STEP);
      return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * FLOOR_STEP);
    };
    const colour = tint(THEME.grid, opacity);
    for (const at of range(x)) {
      this.polygon([this.project(at, y - this.half, t), this.project(at, y + this.half, t)], null, colour, 1);
    }
    for (const at of range(y)) {
      this.polygon([this.project(x - this.half, at, t), this.project(x + this.half, at, t)], null, colour, 1);
    }
  }

  polygon(points, fill, stroke, width) {
    const { pen } = this;
    pen.lineCap = "round";
    pen.beginPath();
    for (const point of points) pen.lineTo(point.x, point.y);
    if (points.length > 2) pen.closePath();
    if (fill) {
      pen.fillStyle = fill;
      pen.fill();
    }
    if (stroke) {
      pen.strokeStyle = stroke;
      pen.lineWidth = width;
      pen.stroke();
    }
  }

  // ---- its contents -----------------------------------------------------------------------------

  add(points, draw) {
    const far = points.reduce((sum, point) => sum + point.far, 0) / points.length;
    this.shapes.push({ far, draw });
  }

  /** The farthest first, so that the near covers it. */
  paint() {
    this.shapes.sort((a, b) => b.far - a.far);
    for (const shape of this.shapes) shape.draw(clamp(2.3 - (1.3 * shape.far) / DISTANCE, 0.35, 1.25));
  }

  addCone(cone, colour) {
    const last = this.lastRow(cone);
    for (let row = 0; row <= last; row += 1) {
      const below = cone.slices[row];
      const above = row ? cone.slices[row - 1] : null;
      for (let i = 1; i < below.length; i += 1) this.addPatch(cone, row, i, above, colour, row === last);
    }
  }

  addPatch(cone, row, i, above, colour, isLast) {
    const [a, b] = [cone.slices[row][i - 1], cone.slices[row][i]];
    const t = cone.times[row];
    const rim = [this.project(a.x, a.y, t), this.project(b.x, b.y, t)];
    const paint = a.pale || b.pale ? THEME.pale : colour;
    const strong = t % TIME_STEP === 0;
    const patch = above ? [
      ...rim,
      this.project(above[i].x, above[i].y, cone.times[row - 1]),
      this.project(above[i - 1].x, above[i - 1].y, cone.times[row - 1]),
    ] : rim;
    this.add(patch, (shade) => {
      if (above) this.polygon(patch, tint(paint, 0.055 * shade), null, 0);
      const bright = strong ? 0.62 : 0.14;
      this.polygon(rim, null, tint(paint, bright * shade), isLast || strong ? 1.3 : 0.8);
      if (above && (i - 1) % 6 === 0) this.polygon([rim[0], patch[3]], null, tint(paint, 0.34 * shade), 0.9);
    });
  }

  /** The lines seen from above, on the floor. */
  addShadows(graph) {
    for (const name of ["left", "right", "current"]) {
      const points = graph.lines[name].map(({ x, y }) => this.project(x, y, this.horizon));
      const colour = name === "current" ? THEME.grid : THEME.escape;
      this.pen.setLineDash([2, 4]);
      for (let i = 1; i < points.length; i += 1) {
        this.polygon([points[i - 1], points[i]], null, tint(colour, 0.3), 1);
      }
      this.pen.setLineDash([]);
    }
  }

  addLine(line, colour, width, opacity) {
    const points = line.map(({ x, y, t }) => this.project(x, y, t));
    for (let i = 1; i < points.length; i += 1) {
      const piece = [points[i - 1], points[i]];
      this.add(piece, (shade) => {
        this.polygon(piece, null, towards(THEME.background, colour, Math.min(1, opacity * shade)), width);
      });
    }
  }

  addMissile(missile, colours) {
    const { line } = missile;
    const colour = missile.mine ? colours.own : colours.enemy;
    const pale = missile.noThreatFrom === null ? Infinity : missile.noThreatFrom;
    this.addLine(line.slice(0, pale + 1), colour, 2.5, 1);
    if (pale < line.length - 1) this.addLine(line.slice(pale), THEME.pale, 2, 0.6);
    const end = line[line.length - 1];
    if (!missile.ends) return;
    const place = this.project(end.x, end.y, end.t);
    this.add([{ far: place.far - 0.2 }], () => this.drawEnd(place, missile.hits, colour));
  }

  drawEnd(place, hits, colour) {
    const { pen } = this;
    pen.beginPath();
    pen.arc(place.x, place.y, hits ? 5 : 4, 0, 2 * Math.PI);
    pen.lineWidth = 1.5;
    pen.strokeStyle = hits ? THEME.text : tint(colour, 0.9);
    pen.fillStyle = hits ? colour : THEME.background;
    pen.fill();
    pen.stroke();
  }

  /** L and R at the ends of the escape lines. */
  drawEnds(graph) {
    const { pen } = this;
    pen.font = `600 11px ${THEME.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const [name, letter] of [["left", "L"], ["right", "R"]]) {
      const end = graph.lines[name][graph.lines[name].length - 1];
      const place = this.project(end.x, end.y, end.t);
      pen.fillStyle = THEME.background;
      pen.strokeStyle = THEME.escape;
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.arc(place.x, place.y, 8, 0, 2 * Math.PI);
      pen.fill();
      pen.stroke();
      pen.fillStyle = THEME.escape;
      pen.fillText(letter, place.x, place.y + 0.5);
    }
  }

  drawAircraft({ x, y, heading, colour, strong }) {
    const size = this.half * (strong ? 0.1 : 0.06);
    const at = (ahead, left) => this.project(
      x + size * (ahead * Math.cos(heading) - left * Math.sin(heading)),
      y + size * (ahead * Math.sin(heading) + left * Math.cos(heading)), 0,
    );
    const arrow = [at(1, 0), at(-0.8, 0.7), at(-0.4, 0), at(-0.8, -0.7)];
    this.polygon(arrow, tint(colour, strong ? 1 : 0.6), strong ? THEME.background : null, 1);
  }

  /** Above the aircraft; two names grow away from each other. */
  drawNames(aircraft) {
    const { pen } = this;
    pen.font = `600 12px ${THEME.font}`;
    pen.textBaseline = "alphabetic";
    const placed = aircraft.map((craft) => ({ ...craft, place: this.project(craft.x, craft.y, 0) }));
    placed.sort((a, b) => a.place.x - b.place.x);
    placed.forEach(({ label, colour, place }, i) => {
      const first = i === 0 && placed.length > 1;
      const width = pen.measureText(label).width;
      pen.textAlign = first ? "right" : "left";
      const [low, high] = first ? [width + 6, this.width - 6] : [6, this.width - width - 6];
      outlined(pen, label, clamp(place.x + (first ? 12 : -12), low, high), place.y - 13, colour);
    });
  }
}

/** Draw the graph of `own` under the reach of `enemy`, and name both; `moment` ends the title. */
function showGraph(view, graph, now, { own, enemy }, moment) {
  const strong = new Set([own.index, enemy.index]);
  const aircraft = shown(now.aircraft).filter((craft) => craft.alive).map((craft) => ({
    ...craft, strong: strong.has(craft.index),
    label: strong.has(craft.index) ? `${craft.name}  M ${craft.mach.toFixed(2)}` : "",
  }));
  view.draw(graph, aircraft, { own: own.colour, enemy: enemy.colour });
  element("graph-title").textContent = graph ? `${own.name} under the reach of ${enemy.name}${moment}` : "";
  element("whose").textContent = own.name;
  element("whose").style.setProperty("--side", own.colour);
  element("legend").style.setProperty("--enemy", enemy.colour);
}
