"use strict";
/* The fight from above. */

const RINGS_KM = [10, 20, 30];
const TRAIL_FADES_S = [4, 10, 20, 35, 55, 80, 120]; // ages at which a trail gets paler
const MARK_FADES_S = 30;
const SIZES = { least: 9000, closest: 500, farthest: 500000, scaleText: metresText }; // metres of the map that are shown

class CombatMap {
  constructor(canvas, fight, changed, picked) {
    this.fight = fight;
    this.plane = new Plane(canvas, changed, (x, y) => {
      const found = this.nearest(x, y);
      if (found !== null) picked(found);
    }, SIZES);
    this.showReach = false;
  }

  /** True while the camera is still on its way. */
  draw(now, selected, step) {
    this.plane.begin();
    const moving = this.plane.follow(this.boundsOf(now.time), step);
    this.plane.begin();
    this.pen = this.plane.pen;
    this.now = now;
    this.plane.drawGrid();
    const own = now.aircraft[selected];
    if (own.alive) this.drawRings(own);
    const enemy = this.fight.enemyOf(now, selected);
    if (own.alive && !enemy.hidden) this.drawTargetLine(own, enemy);
    if (this.showReach) this.drawReach(this.fight.graphs.at(now.time, selected), own);
    for (const missile of shown(this.fight.missiles)) this.drawMissileTrail(missile, now.time);
    for (const craft of shown(this.fight.aircraft)) this.drawTrail(craft.track, now.time, craft.colour);
    for (const missile of now.missiles) this.drawMissile(missile);
    this.drawMarks(now.time);
    for (const craft of shown(now.aircraft)) if (craft.alive) this.drawCraft(craft, craft.index === selected);
    drawLabels(this.plane, now, selected);
    this.plane.drawScale();
    return moving;
  }

  /** A box around everybody who lives, a little ahead and behind. */
  boundsOf(time) {
    const points = [];
    for (const { track, died } of shown(this.fight.aircraft)) {
      if (died !== null && time > died + 6) continue;
      for (const shift of [-10, 0, 10]) points.push(track.at(clamp(time + shift, 0, this.fight.duration)));
    }
    for (const { track } of shown(this.fight.missiles)) {
      if (track.begin <= time && time <= track.end) points.push(track.at(time));
    }
    if (!points.length) for (const { track } of this.fight.aircraft) points.push(track.at(time));
    const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
    return {
      left: Math.min(...xs), right: Math.max(...xs), bottom: Math.min(...ys), top: Math.max(...ys),
    };
  }

  /** The aircraft that was tapped; a dead one only where no other is near. */
  nearest(x, y) {
    const plane = this.plane;
    const near = this.now.aircraft
      .map((craft) => [Math.hypot(plane.toX(craft.x) - x, plane.toY(craft.y) - y), craft])
      .filter(([away]) => away < 32)
      .sort(([a, one], [b, two]) => two.alive - one.alive || a - b);
    return near.length ? near[0][1].index : null;
  }

  // ---- around the selected aircraft ---------------------------------------------------------------

  drawRings(own) {
    const { pen, plane } = this;
    pen.lineWidth = 1;
    pen.font = `11px ${THEME.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const ring of RINGS_KM) {
      const radius = ring * 1000 * plane.scale;
      const [x, y] = [plane.toX(own.x), plane.toY(own.y)];
      pen.strokeStyle = tint(own.colour, 0.28);
      pen.setLineDash([3, 5]);
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.stroke();
      pen.setLineDash([]);
      const label = `${ring} km`;
      const width = pen.measureText(label).width + 8;
      pen.fillStyle = THEME.background;
      pen.fillRect(x - width / 2, y - radius - 8, width, 16);
      pen.fillStyle = tint(own.colour, 0.8);
      pen.fillText(label, x, y - radius);
    }
  }

  drawTargetLine(own, enemy) {
    const { pen, plane } = this;
    pen.strokeStyle = tint(THEME.text, 0.22);
    pen.lineWidth = 1;
    pen.setLineDash([1, 4]);
    plane.trace([own, enemy]);
    pen.setLineDash([]);
    const middle = { x: plane.toX((own.x + enemy.x) / 2), y: plane.toY((own.y + enemy.y) / 2) };
    pen.font = `11px ${THEME.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    outlined(pen, kilometres(distance(own, enemy)), middle.x, middle.y, tint(THEME.text, 0.75));
  }

  /** The last slice of the enemy's reach and the own escape lines, as the graph has them. */
  drawReach(graph, own) {
    if (!graph || !own.alive) return;
    const { pen, plane } = this;
    const enemy = this.now.aircraft[graph.enemy];
    for (const slice of graph.cone.slices) {
      pen.lineWidth = 1;
      pen.strokeStyle = tint(enemy.colour, 0.22);
      plane.trace(slice);
    }
    pen.lineWidth = 1.5;
    pen.strokeStyle = tint(THEME.escape, 0.85);
    plane.trace(graph.lines.left);
    plane.trace(graph.lines.right);
    pen.strokeStyle = tint(own.colour, 0.7);
    pen.setLineDash([4, 4]);
    plane.trace(graph.lines.current);
    pen.setLineDash([]);
  }

  // ---- paths ----------------------------------------------------------------------------------------

  drawTrail(track, time, colour) {
    const { pen } = this;
    pen.lineJoin = "round";
    let newest = time;
    for (const [i, age] of [...TRAIL_FADES_S, Infinity].entries()) {
      const oldest = Math.max(track.begin, time - age);
      if (newest > track.begin && oldest < track.end) {
        pen.strokeStyle = tint(colour, 0.85 - 0.09 * i);
        pen.lineWidth = 2.4 - 0.2 * i;
        this.plane.trace(track.between(oldest, newest));
      }
      newest = oldest;
    }
  }

  /** Bright and solid under thrust, thin and dotted after it; it fades when the missile is gone. */
  drawMissileTrail({ track, colour }, time) {
    if (track.begin > time) return;
    const { pen } = this;
    const left = clamp(1 - (time - track.end) / MARK_FADES_S, 0.18, 1);
    const burnout = Math.min(track.begin + this.fight.data.burnTime, time, track.end);
    pen.strokeStyle = tint(THEME.flame, 0.55 * left);
    pen.lineWidth = 2;
    this.plane.trace(track.between(track.begin, burnout));
    if (burnout >= Math.min(time, track.end)) return;
    pen.strokeStyle = tint(colour, 0.75 * left);
    pen.lineWidth = 1.2;
    pen.setLineDash([2, 3]);
    this.plane.trace(track.between(burnout, time));
    pen.setLineDash([]);
  }

  // ---- aircraft and missiles ---------------------------------------------------------------------------------------

  arrow({ x, y, heading }, size, tail) {
    const { pen, plane } = this;
    pen.save();
    pen.translate(plane.toX(x), plane.toY(y));
    pen.rotate(-heading);
    pen.beginPath();
    pen.moveTo(size, 0);
    pen.lineTo(-0.75 * size, 0.62 * size);
    pen.lineTo(-tail * size, 0);
    pen.lineTo(-0.75 * size, -0.62 * size);
    pen.closePath();
    pen.restore();
  }

  drawCraft(craft, selected) {
    const { pen } = this;
    this.arrow(craft, selected ? 13 : 11, 0.35);
    pen.fillStyle = craft.colour;
    pen.fill();
    pen.lineWidth = selected ? 2 : 1;
    pen.strokeStyle = selected ? "#ffffff" : THEME.background;
    pen.stroke();
  }

  drawMissile(missile) {
    const { pen, plane } = this;
    if (missile.burning) {
      const [x, y] = [plane.toX(missile.x), plane.toY(missile.y)];
      const glow = pen.createRadialGradient(x, y, 0, x, y, 11);
      glow.addColorStop(0, tint(THEME.flame, 0.9));
      glow.addColorStop(1, tint(THEME.flame, 0));
      pen.fillStyle = glow;
      pen.fillRect(x - 11, y - 11, 22, 22);
    }
    this.arrow(missile, 6.5, 0.75);
    pen.fillStyle = missile.threat ? missile.colour : tint(THEME.pale, 0.7);
    pen.fill();
    pen.lineWidth = 1;
    pen.strokeStyle = missile.burning ? "#ffffff" : THEME.background;
    pen.stroke();
  }

  /** The places at which missiles and aircraft ended. */
  drawMarks(time) {
    for (const { track, ending } of this.fight.missiles) {
      if (ending === "miss" && track.end <= time && time < track.end + MARK_FADES_S) {
        const end = track.at(track.end);
        this.cross(end, 4, tint(THEME.pale, 0.8 * (1 - (time - track.end) / MARK_FADES_S)), 1.5);
      }
    }
    for (const { track, died, colour } of this.fight.aircraft) {
      if (died !== null && died <= time) this.drawKill(track.at(died), time - died, colour);
    }
  }

  drawKill(place, age, colour) {
    const { pen, plane } = this;
    const [x, y] = [plane.toX(place.x), plane.toY(place.y)];
    if (age < 3) {
      pen.strokeStyle = tint(THEME.flame, 0.9 * (1 - age / 3));
      pen.lineWidth = 3;
      pen.beginPath();
      pen.arc(x, y, 10 + 12 * age, 0, 2 * Math.PI);
      pen.stroke();
    }
    this.cross(place, 8, colour, 3);
  }

  cross(place, size, colour, width) {
    const { pen, plane } = this;
    const [x, y] = [plane.toX(place.x), plane.toY(place.y)];
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    pen.moveTo(x - size, y - size);
    pen.lineTo(x + size, y + size);
    pen.moveTo(x + size, y - size);
    pen.lineTo(x - size, y + size);
    pen.stroke();
  }
}

/** What the sensors of a live fight do not see is not drawn; in a recorded one nothing is hidden. */
function shown(list) {
  return list.filter((each) => !each.hidden);
}
