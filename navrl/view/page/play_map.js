"use strict";
/* The map of a fight that is flown: what lies ahead of the own aircraft, and where missiles come from. */

const COURSE_S = 12; // of the own course that is drawn
const STROBE = { inner: 44, outer: 62 }; // pixels around the own aircraft
const URGENT_S = 10;

class LiveMap extends CombatMap {
  constructor(...parts) {
    super(...parts);
    this.showReach = true;
  }

  draw(now, selected, step) {
    const moving = super.draw(now, selected, step);
    const own = now.aircraft[selected];
    for (const craft of now.aircraft) if (craft.hidden && craft.contact) this.drawContact(craft, now.time);
    if (own.alive) {
      if (this.fight.me === selected) this.drawCourse(own);
      for (const warning of this.fight.warnings(now, selected)) this.drawStrobe(own, warning);
      if (this.fight.data.radar) this.drawRadar(own);
    }
    return moving;
  }

  /** Where the aircraft flies if it is steered on like this. */
  drawCourse(own) {
    const { rate } = this.fight.aircraft[own.index].track;
    const points = [];
    for (let span = 0; span <= COURSE_S; span += 0.5) points.push(ahead(own, rate, span));
    this.pen.strokeStyle = tint("#ffffff", 0.75);
    this.pen.lineWidth = 2;
    this.pen.setLineDash([6, 5]);
    this.plane.trace(points);
    this.pen.setLineDash([]);
  }

  /** A wedge on the bearing of a missile, and how long it still flies. */
  drawStrobe(own, { line, left }) {
    const { pen, plane } = this;
    const [x, y] = [plane.toX(own.x), plane.toY(own.y)];
    const colour = left < URGENT_S ? "#ff5d7d" : THEME.escape;
    const wide = left < URGENT_S ? 0.2 : 0.12;
    pen.fillStyle = tint(colour, 0.85);
    pen.beginPath();
    pen.arc(x, y, STROBE.outer, -line - wide, -line + wide);
    pen.arc(x, y, STROBE.inner, -line + wide, -line - wide, true);
    pen.closePath();
    pen.fill();
    if (left > 99) return;
    pen.font = `650 12px ${THEME.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const away = STROBE.outer + 14;
    outlined(pen, `${left.toFixed(0)} s`, x + away * Math.cos(line), y - away * Math.sin(line), colour);
  }

  /** The edges of what the own radar sees. */
  drawRadar(own) {
    const { pen, plane } = this;
    pen.strokeStyle = tint(THEME.calm || "#8fe3c0", 0.28);
    pen.lineWidth = 1;
    for (const side of [-1, 1]) {
      const line = own.heading + side * RADAR.half;
      plane.trace([own, { x: own.x + RADAR.range * Math.cos(line), y: own.y + RADAR.range * Math.sin(line) }]);
    }
  }

  /** A circle where the radar saw it last, paler as it gets older. */
  drawContact(craft, time) {
    const { pen, plane } = this;
    const { contact } = craft;
    const left = clamp(1 - (time - contact.time) / RADAR.remembers, 0.2, 1);
    dot(pen, plane.toX(contact.x), plane.toY(contact.y), 9);
    pen.strokeStyle = tint(craft.colour, left);
    pen.lineWidth = 1.5;
    pen.setLineDash([3, 3]);
    pen.stroke();
    pen.setLineDash([]);
  }
}
