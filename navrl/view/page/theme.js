"use strict";
/* Colours that colour-blind people can tell apart, and functions that draw with them. */

const THEME = {
  background: "#0c1117",
  grid: "#8fa3b8",
  text: "#e6edf3",
  muted: "#8b98a9",
  sides: ["#ff6f43", "#4ba6ff"],
  escape: "#ffd34d",
  pale: "#c9d4df",
  flame: "#fff1c9",
  tones: ["#4ba6ff", "#ff8a5c", "#8fe3c0", "#ffd34d", "#ff7fc4", "#b79cff", "#c9d4df", "#5fd0e0", "#c4d36b", "#e3a3a3"],
  font: 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif',
};

/* The other theme of the pages that have one. */
const LIGHT = {
  background: "#f6f8fa",
  grid: "#5b6b7d",
  text: "#17212c",
  muted: "#5d6b7b",
  tones: ["#1769c2", "#d1531b", "#178a5c", "#a87500", "#c2317f", "#7048c8", "#5a6b7c", "#0e8ba0", "#76850f", "#b05050"],
};

/** A colour "#rrggbb" with an opacity. */
function tint(colour, opacity) {
  const value = parseInt(colour.slice(1), 16);
  return `rgba(${value >> 16}, ${(value >> 8) & 255}, ${value & 255}, ${opacity})`;
}

/** A colour "#rrggbb" on its way to another; opaque, so that what overlaps shows no seams. */
function towards(colour, other, share) {
  const parts = [1, 3, 5].map((at) => (
    Math.round(mix(parseInt(colour.slice(at, at + 2), 16), parseInt(other.slice(at, at + 2), 16), share))
  ));
  return `rgb(${parts.join(", ")})`;
}

function sideColour(side) {
  return THEME.sides[side % THEME.sides.length];
}

/** The colour of the i-th of many. */
function toneOf(index) {
  return THEME.tones[index % THEME.tones.length];
}

function clamp(value, low, high) {
  return Math.min(high, Math.max(low, value));
}

function mix(a, b, share) {
  return a + (b - a) * share;
}

/** 71.84 -> "1:11.8" */
function clockText(seconds) {
  const tenths = Math.round(seconds * 10);
  const rest = ((tenths % 600) / 10).toFixed(1).padStart(4, "0");
  return `${Math.floor(tenths / 600)}:${rest}`;
}

function kilometres(metres) {
  return `${(metres / 1000).toFixed(1)} km`;
}

/** The element with this id. */
function element(id) {
  return document.getElementById(id);
}

/** Text that stays readable over lines. */
function outlined(pen, text, x, y, colour) {
  pen.lineJoin = "round";
  pen.lineWidth = 3.5;
  pen.strokeStyle = THEME.background;
  pen.strokeText(text, x, y);
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}

function dot(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
}

/** An arrow from a place, so many pixels long; too short for a head it is left out. */
function arrowOf(pen, x, y, dx, dy) {
  const length = Math.hypot(dx, dy);
  if (length < 5) return;
  const head = Math.min(7, length / 2);
  pen.save();
  pen.translate(x, y);
  pen.rotate(Math.atan2(dy, dx));
  pen.lineWidth = 2;
  pen.beginPath();
  pen.moveTo(0, 0);
  pen.lineTo(length - head, 0);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(length, 0);
  pen.lineTo(length - head, 0.6 * head);
  pen.lineTo(length - head, -0.6 * head);
  pen.fill();
  pen.restore();
}

/** A canvas as large as it is shown, in device pixels; its context draws in CSS pixels. */
function sized(canvas) {
  const box = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(box.width * ratio));
  const height = Math.max(1, Math.round(box.height * ratio));
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, box.width, box.height);
  return { pen, width: box.width, height: box.height };
}
