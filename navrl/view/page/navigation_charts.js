"use strict";
/* Charts of a trip over time: speed, height, clearance, distance to the goal. */

const CHART_EDGE = { left: 40, right: 14, top: 30, between: 28, bottom: 22 }; // pixels
const TIME_STEPS_S = [1, 2, 5, 10, 20, 60]; // spacings of the time axis

class Charts {
  /** sought(time): the user points at a time. */
  constructor(canvas, sought) {
    this.canvas = canvas;
    const seek = (event) => {
      if (!this.trip || !(event.buttons & 1)) return;
      sought(this.toTime(event.clientX - canvas.getBoundingClientRect().left));
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      seek(event);
    });
    canvas.addEventListener("pointermove", seek);
  }

  draw(trip, now) {
    Object.assign(this, sized(this.canvas));
    [this.trip, this.now] = [trip, now];
    const rows = rowsOf(trip, now);
    const { top, between, bottom } = CHART_EDGE;
    const high = (this.height - top - bottom - between * (rows.length - 1)) / rows.length;
    this.drawTimeAxis();
    this.drawBands();
    rows.forEach((row, i) => this.drawRow(row, top + i * (high + between), high));
    this.drawInstant();
  }

  toX(time) {
    const { left, right } = CHART_EDGE;
    return left + (time / this.trip.duration) * (this.width - left - right);
  }

  toTime(x) {
    const { left, right } = CHART_EDGE;
    return clamp((x - left) / (this.width - left - right), 0, 1) * this.trip.duration;
  }

  drawTimeAxis() {
    const { pen, trip } = this;
    const room = (this.width - CHART_EDGE.left - CHART_EDGE.right) / 60;
    const step = TIME_STEPS_S.find((each) => trip.duration / each <= room) || 60;
    pen.font = `11px ${THEME.font}`;
    pen.textBaseline = "bottom";
    pen.textAlign = "center";
    pen.lineWidth = 1;
    for (let time = 0; time <= trip.duration; time += step) {
      const x = Math.round(this.toX(time)) + 0.5;
      pen.strokeStyle = tint(THEME.grid, 0.1);
      this.rule(x, CHART_EDGE.top - 6, x, this.height - CHART_EDGE.bottom);
      pen.fillStyle = THEME.muted;
      pen.fillText(`${time} s`, x, this.height - 4);
    }
  }

  drawBands() {
    const { pen, trip } = this;
    pen.fillStyle = tint(SHIELD_COLOUR, 0.2);
    for (const { from, to } of trip.interventions) {
      const x = this.toX(from);
      pen.fillRect(x, CHART_EDGE.top - 6, Math.max(1, this.toX(to) - x), this.height - CHART_EDGE.top - CHART_EDGE.bottom + 6);
    }
  }

  drawRow(row, top, high) {
    const { pen, trip, now } = this;
    const toY = (value) => top + high - ((clamp(value, row.low, row.high) - row.low) / (row.high - row.low)) * high;
    const [left, right] = [CHART_EDGE.left, this.width - CHART_EDGE.right];
    pen.lineWidth = 1;
    pen.strokeStyle = tint(THEME.grid, 0.28);
    this.rule(left, top + high + 0.5, right, top + high + 0.5);
    for (const limit of row.limits) this.drawLimit(limit, toY(limit.value), left, right);
    pen.lineJoin = "round";
    for (const [alpha, until] of [[0.35, trip.duration], [1, now.time]]) {
      pen.strokeStyle = tint(row.colour, alpha);
      pen.lineWidth = 1.8;
      pen.beginPath();
      trip.t.forEach((time, knot) => { if (time <= until) pen.lineTo(this.toX(time), toY(row.values[knot])); });
      if (alpha === 1) pen.lineTo(this.toX(now.time), toY(row.now));
      pen.stroke();
    }
    dot(pen, this.toX(now.time), toY(row.now), 3.5);
    pen.fillStyle = row.colour;
    pen.fill();
    this.drawWords(row, top, high);
  }

  drawWords(row, top, high) {
    const { pen } = this;
    pen.textBaseline = "alphabetic";
    pen.textAlign = "left";
    pen.font = `600 12px ${THEME.font}`;
    pen.fillStyle = row.colour;
    pen.fillText(row.name, CHART_EDGE.left, top - 7);
    const width = pen.measureText(row.name).width;
    pen.font = `12px ${THEME.font}`;
    pen.fillStyle = THEME.text;
    pen.fillText(`${row.now.toFixed(row.digits)} ${row.unit}`, CHART_EDGE.left + width + 8, top - 7);
    pen.font = `11px ${THEME.font}`;
    pen.fillStyle = THEME.muted;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const [value, y] of [[row.high, top + 2], [row.low, top + high - 2]]) {
      pen.fillText(Number(value.toFixed(1)), CHART_EDGE.left - 6, y);
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
    const { pen, now } = this;
    const x = this.toX(now.time);
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

function rowsOf(trip, now) {
  const { speedLimit, floor, ceiling, bodyRadius, goalRadius, lidarRange } = trip.params;
  const end = OUTCOME_COLOURS;
  return [
    {
      name: "speed", unit: "m/s", digits: 1, values: trip.speeds, now: now.speed, colour: SPEED_STOPS[2],
      low: 0, high: Math.max(1.1 * speedLimit, ...trip.speeds), limits: [],
    },
    {
      name: "height", unit: "m", digits: 1, values: trip.z, now: now.z, colour: "#8fb8ff",
      low: Math.min(0, ...trip.z), high: Math.max(1.12 * ceiling, ...trip.z),
      limits: [{ value: floor, label: "floor", colour: end.outside }, { value: ceiling, label: "ceiling", colour: end.outside }],
    },
    {
      name: "clearance", unit: "m", digits: 2, values: trip.clearance, now: now.clearance, colour: LIDAR_COLOUR,
      low: 0, high: Math.min(lidarRange, 1.15 * Math.max(...trip.clearance)), limits: [{ value: bodyRadius, label: "body", colour: end.collision_static }],
    },
    {
      name: "distance to goal", unit: "m", digits: 1, values: trip.distances, now: now.distance, colour: THEME.pale,
      low: 0, high: Math.max(...trip.distances), limits: [{ value: goalRadius, label: "goal", colour: end.success }],
    },
  ];
}
