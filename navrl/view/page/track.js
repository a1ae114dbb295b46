"use strict";
/* Between recorded knots: a path is a cubic with the recorded headings and speeds. */

const PIECES = 5; // of the drawn path between two knots

class Track {
  /** raw: {t, x, y, h, v}: times in s, metres, headings in rad counter-clockwise from east, m/s. */
  constructor(raw) {
    Object.assign(this, raw);
    this.begin = raw.t[0];
    this.end = raw.t[raw.t.length - 1];
    this.path = this.sampled();
  }

  /** Position, heading and speed; held before the first and after the last knot. */
  at(time) {
    const b = upperKnot(this.t, time);
    const a = Math.max(0, b - 1);
    const span = this.t[b] - this.t[a];
    const share = span > 0 ? clamp((time - this.t[a]) / span, 0, 1) : 1;
    const turn = Math.atan2(Math.sin(this.h[b] - this.h[a]), Math.cos(this.h[b] - this.h[a]));
    return {
      x: this.cubic(this.x, Math.cos, a, b, span, share),
      y: this.cubic(this.y, Math.sin, a, b, span, share),
      heading: this.h[a] + turn * share,
      speed: mix(this.v[a], this.v[b], share),
      knot: time <= this.begin ? 0 : b,
    };
  }

  cubic(values, part, a, b, span, share) {
    const slopes = [a, b].map((knot) => this.v[knot] * part(this.h[knot]));
    return cubic(values[a], slopes[0], values[b], slopes[1], span, share);
  }

  /** Points {t, x, y} fine enough to be joined by straight lines. */
  sampled() {
    const points = [{ t: this.begin, x: this.x[0], y: this.y[0] }];
    for (let b = 1; b < this.t.length; b += 1) {
      for (let piece = 1; piece <= PIECES; piece += 1) {
        const t = mix(this.t[b - 1], this.t[b], piece / PIECES);
        const { x, y } = this.at(t);
        points.push({ t, x, y });
      }
    }
    return points;
  }

  /** Points of the path between two times, both ends exact. */
  between(from, to) {
    const start = clamp(from, this.begin, this.end);
    const stop = clamp(to, this.begin, this.end);
    const inner = this.path.filter((point) => point.t > start && point.t < stop);
    return [{ t: start, ...this.at(start) }, ...inner, { t: stop, ...this.at(stop) }];
  }
}

/** Index of the knot at or after the time; never the first one, unless there is no other. */
function upperKnot(times, time) {
  let low = 1;
  let high = times.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return Math.min(low, times.length - 1);
}

/** A share of the way from a to b, which are a span apart and have these slopes. */
function cubic(a, slopeA, b, slopeB, span, s) {
  const r = 1 - s;
  return (
    (1 + 2 * s) * r * r * a + s * r * r * slopeA * span
    + s * s * (3 - 2 * s) * b - s * s * r * slopeB * span
  );
}

/** The inverse of differencing a list of whole numbers twice. */
function summed(packed) {
  let [value, step] = [0, 0];
  return packed.map((difference) => {
    step += difference;
    value += step;
    return value;
  });
}
