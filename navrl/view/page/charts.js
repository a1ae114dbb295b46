"use strict";
/* Charts over time, one below the other. */

const CHART_EDGE = { left: 40, right: 14, top: 30, between: 28, bottom: 22 }; // pixels

class Charts {
  /** sought(time): the user points at a time. */
  constructor(canvas, sought) {
    this.canvas = canvas;
    const seek = (event) => {
      if (!this.shown || !(event.buttons & 1)) return;
      sought(this.toTime(event.clientX - canvas.getBoundingClientRect().left));
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      seek(event);
    });
    canvas.addEventListener("pointermove", seek);
  }

  /** shown: {t, duration, time, bands: [{from, to, colour}], rows: [{name, colour, words, low, high, limits, lines}]};
      words follow the name: {text, colour}; a line is {values, now, colour}, with a value or null for each of t.
      The rhythm is that of the player. */
  draw(shown, rhythm) {
    Object.assign(this, sized(this.canvas));
    [this.shown, this.rhythm] = [shown, rhythm];
    const { rows } = shown;
    const { top, between, bottom } = CHART_EDGE;
    const high = (this.height - top - bottom - between * (rows.length - 1)) / rows.length;
    this.drawTimeAxis();
    this.drawBands();
    rows.forEach((row, i) => this.drawRow(row, top + i * (high + between), high));
    this.drawInstant();
  }

  toX(time) {
    const { left, right } = CHART_EDGE;
    return left + (time / this.shown.duration) * (this.width - left - right);
  }

  toTime(x) {
    const { left, right } = CHART_EDGE;
    return clamp((x - left) / (this.width - left - right), 0, 1) * this.shown.duration;
  }

  drawTimeAxis() {
    const { pen, rhythm } = this;
    const { duration } = this.shown;
    const room = (this.width - CHART_EDGE.left - CHART_EDGE.right) / 60;
    const steps = rhythm.spacings;
    const step = steps.find((each) => duration / each <= room) || steps[steps.length - 1];
    pen.font = `11px ${THEME.font}`;
    pen.textBaseline = "bottom";
    pen.textAlign = "center";
    pen.lineWidth = 1;
    for (let time = 0; time <= duration; time += step) {
      const x = Math.round(this.toX(time)) + 0.5;
      pen.strokeStyle = tint(THEME.grid, 0.1);
      this.rule(x, CHART_EDGE.top - 6, x, this.height - CHART_EDGE.bottom);
      pen.fillStyle = THEME.muted;
      pen.fillText(rhythm.tick(time), x, this.height - 4);
    }
  }

  drawBands() {
    const { pen } = this;
    for (const { from, to, colour } of this.shown.bands) {
      pen.fillStyle = tint(colour, 0.2);
      const x = this.toX(from);
      pen.fillRect(x, CHART_EDGE.top - 6, Math.max(1, this.toX(to) - x), this.height - CHART_EDGE.top - CHART_EDGE.bottom + 6);
    }
  }

  drawRow(row, top, high) {
    const { pen } = this;
    const { t, duration, time } = this.shown;
    const toY = (value) => top + high - ((clamp(value, row.low, row.high) - row.low) / (row.high - row.low)) * high;
    const [left, right] = [CHART_EDGE.left, this.width - CHART_EDGE.right];
    pen.lineWidth = 1;
    pen.strokeStyle = tint(THEME.grid, 0.28);
    this.rule(left, top + high + 0.5, right, top + high + 0.5);
    for (const limit of row.limits) this.drawLimit(limit, toY(limit.value), left, right);
    pen.lineJoin = "round";
    pen.lineWidth = row.lines.length > 1 ? 1.3 : 1.8;
    for (const line of row.lines) {
      for (const [alpha, until] of [[0.35, duration], [1, time]]) {
        pen.strokeStyle = tint(line.colour, alpha);
        this.curve(line.values, until, toY, alpha === 1 ? line.now : null);
      }
      if (line.now === null) continue;
      dot(pen, this.toX(time), toY(line.now), row.lines.length > 1 ? 2.5 : 3.5);
      pen.fillStyle = line.colour;
      pen.fill();
    }
    this.drawWords(row, top, high);
  }

  /** The values until that time, and the present one; a null is a gap. */
  curve(values, until, toY, present) {
    const { pen } = this;
    const { t, time } = this.shown;
    pen.beginPath();
    let joined = false;
    for (let knot = 0; knot < t.length && t[knot] <= until; knot += 1) {
      const value = values[knot];
      if (value === null) joined = false;
      else if (joined) pen.lineTo(this.toX(t[knot]), toY(value));
      else {
        pen.moveTo(this.toX(t[knot]), toY(value));
        joined = true;
      }
    }
    if (present !== null && joined) pen.lineTo(this.toX(time), toY(present));
    pen.stroke();
  }

  drawWords(row, top, high) {
    const { pen } = this;
    pen.textBaseline = "alphabetic";
    pen.textAlign = "left";
    let x = CHART_EDGE.left;
    for (const [index, { text, colour }] of [{ text: row.name, colour: row.colour }, ...row.words].entries()) {
      pen.font = `${index ? "" : "600 "}12px ${THEME.font}`;
      const width = pen.measureText(text).width;
      if (index && x + width > this.width) break;
      pen.fillStyle = colour;
      pen.fillText(text, x, top - 7);
      x += width + 8;
    }
    pen.font = `11px ${THEME.font}`;
    pen.fillStyle = THEME.muted;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const [value, y] of [[row.high, top + 2], [row.low, top + high - 2]]) {
      pen.fillText(axisText(value), CHART_EDGE.left - 6, y);
    }
  }

  drawLimit({ label, colour }, y, left, right) {
    const { pen } = this;
    pen.strokeStyle = tint(colour, 0.75);
    pen.lineWidth = 1;
    pen.setLineDash([5, 4]);
    this.rule(left, y, right, y);
    pen.setLineDash([]);
    pen.font = `10px ${THEME.font}`;
    pen.textAlign = "right";
    pen.textBaseline = "bottom";
    outlined(pen, label, right, y - 1, tint(colour, 0.9));
  }

  drawInstant() {
    const { pen } = this;
    const x = this.toX(this.shown.time);
    pen.strokeStyle = tint(THEME.text, 0.5);
    pen.lineWidth = 1;
    this.rule(x, CHART_EDGE.top - 6, x, this.height - CHART_EDGE.bottom);
  }

  rule(x, y, toX, toY) {
    this.pen.beginPath();
    this.pen.moveTo(x, y);
    this.pen.lineTo(toX, toY);
    this.pen.stroke();
  }
}

/** A bound of an axis in the room beside it. */
function axisText(value) {
  const size = Math.abs(value);
  if (size >= 10000 || (size > 0 && size < 0.01)) return value.toExponential(0).replace("e+", "e");
  return String(Number(value.toPrecision(size >= 100 ? 4 : size >= 1 ? 3 : 2)));
}
