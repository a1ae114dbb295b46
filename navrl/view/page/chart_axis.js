"use strict";
/* Axes of charts: ranges, marks and places, linear, logarithmic or of a few choices; and smoothing. */

const SHARE_FROM_ZERO = 0.35; // an axis begins at 0 if its lowest value is below this share of its highest
const FLAT = 1e-9; // of a value: less than that is rounding
const MOST_BAND = 0.5; // an interval may add this share of the lines' range to either end of an axis

/** Round numbers between the bounds, about as many as wanted. */
function ticks(low, high, wanted) {
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
  return found;
}

/** Powers of ten, or 1, 2 and 5 times them, or both ends where there are too few of them. */
function logTicks(low, high) {
  const found = (digits) => {
    const values = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
      values.push(...digits.map((digit) => digit * 10 ** power));
    }
    return values.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  };
  const powers = found([1]);
  if (powers.length > 7) return powers.filter((_, at) => at % Math.ceil(powers.length / 6) === 0);
  if (powers.length > 2) return powers;
  const more = found([1, 2, 5]);
  return more.length > 1 ? more : [low, high];
}

/** Where values of an axis lie between 0 and 1, which value lies where, and its marks: [place, text]. */
function axisOf({ low, high, log, choices }, wanted, text = numberText) {
  if (choices) {
    const place = (value) => (choices.indexOf(value) + 0.5) / choices.length;
    return { place, marks: choices.map((value) => [place(value), String(value)]) };
  }
  const span = high - low || 1;
  if (!log) {
    const place = (value) => (value - low) / span;
    return { place, value: (at) => low + at * span, marks: ticks(low, low + span, wanted).map((value) => [place(value), text(value)]) };
  }
  const ratio = Math.log(high / low) || 1;
  const place = (value) => Math.log(Math.max(value, Number.MIN_VALUE) / low) / ratio;
  const short = (value) => (value < 0.01 ? value.toExponential(0) : text(value));
  return { place, value: (at) => low * Math.exp(at * ratio), marks: logTicks(low, high).map((value) => [place(value), short(value)]) };
}

function lowest(values) {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}

function highest(values) {
  return values.reduce((a, b) => Math.max(a, b), -Infinity);
}

/** The bounds of an axis of these values with some room; intervals add up to a limit. */
function around(values, ends = []) {
  let [low, high] = [lowest(values), highest(values)];
  if (!(low <= high)) return { low: 0, high: 1 };
  const most = MOST_BAND * (high - low || Math.abs(high) || 1);
  [low, high] = [Math.max(low - most, Math.min(low, lowest(ends))), Math.min(high + most, Math.max(high, highest(ends)))];
  const size = Math.max(Math.abs(low), Math.abs(high));
  const room = high - low > FLAT * size ? high - low : size || 1;
  const fromZero = lowest(values) >= 0 && low < SHARE_FROM_ZERO * high;
  return { low: fromZero ? 0 : low - 0.05 * room, high: high + 0.06 * room };
}

/** The bounds of a logarithmic axis of these values, all of which are positive. */
function aroundLog(values) {
  const [low, high] = [lowest(values), highest(values)];
  const room = Math.max((high / low) ** 0.05, 1.05);
  return { low: low / room, high: high * room, log: true };
}

/** Exponential moving averages without the bias of their beginning; what is unknown stays so. */
function smoothed(values, weight) {
  if (!weight) return values;
  let [sum, count] = [0, 0];
  return values.map((value) => {
    if (value === null || value === undefined) return null;
    sum = weight * sum + (1 - weight) * value;
    count = weight * count + (1 - weight);
    return sum / count;
  });
}

/** "M..L.." through the points that are known. */
function pathOf(values, x, y) {
  const points = values.map((value, at) => (isKnown(value) ? `${x(at).toFixed(1)},${y(value).toFixed(1)}` : null));
  const known = points.filter((point) => point !== null);
  return known.length ? `M${known.join("L")}` : "";
}

/** The area between two lines, where both are known. */
function areaOf(low, high, x, y) {
  const known = [...high.keys()].filter((at) => isKnown(low[at]) && isKnown(high[at]));
  if (!known.length) return "";
  const there = known.map((at) => `${x(at).toFixed(1)},${y(high[at]).toFixed(1)}`);
  const back = known.reverse().map((at) => `${x(at).toFixed(1)},${y(low[at]).toFixed(1)}`);
  return `M${there.join("L")}L${back.join("L")}Z`;
}

function isKnown(value) {
  return value !== null && value !== undefined;
}
