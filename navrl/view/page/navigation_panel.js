"use strict";
/* Sentences about a trip, and the buttons that choose another. */

/** A few short sentences about the instant, the urgent ones marked. */
function situation(trip, now, movers) {
  const { bodyRadius, floor, ceiling } = trip.params;
  const lines = [["who", `episode ${trip.number}`]];
  lines.push(["", `${now.speed.toFixed(1)} m/s at ${now.z.toFixed(1)} m`]);
  if (Math.min(now.z - floor, ceiling - now.z) < bodyRadius) {
    lines.push(["urgent", now.z - floor < ceiling - now.z ? "near the floor" : "near the ceiling"]);
  }
  const near = movers.filter((mover) => mover.near);
  if (near.length) {
    const gap = Math.max(0, near[0].away - near[0].radius);
    lines.push(["", `${near.length} moving perceived, nearest ${gap.toFixed(1)} m`]);
  }
  if (now.clearance < 2 * bodyRadius) lines.push(["urgent", `only ${now.clearance.toFixed(2)} m clear`]);
  if (now.changed) lines.push(["shield", `shield: ${now.changed.toFixed(1)} m/s changed`]);
  if (trip.reached !== null && now.time >= trip.reached) lines.push(["calm", `goal reached at ${clockText(trip.reached)}`]);
  return lines.map(([kind, text]) => spanOf(text, kind));
}

function spanOf(text, kind) {
  const span = document.createElement("span");
  span.textContent = text;
  if (kind) span.className = kind;
  return span;
}

/** The number of episodes by outcome, in the colours of the outcomes. */
function tallyOf(outcomes, trips) {
  return outcomes.map(({ kind, label }) => {
    const count = trips.filter((trip) => trip.kind === kind).length;
    const span = spanOf(`${count} ${label}`, count ? kind : `${kind} none`);
    span.style.setProperty("--tone", OUTCOME_COLOURS[kind]);
    return span;
  });
}

/** A small button per episode. */
function stripOf(trips, picked) {
  return trips.map((trip, index) => {
    const button = document.createElement("button");
    button.className = `pip ${trip.kind}`;
    button.style.setProperty("--tone", OUTCOME_COLOURS[trip.kind]);
    button.title = captionOf(trip);
    button.setAttribute("aria-label", captionOf(trip));
    button.addEventListener("click", () => picked(index));
    return button;
  });
}

function captionOf(trip) {
  return `Episode ${trip.number}: ${trip.outcome[0].toLowerCase()}${trip.outcome.slice(1)}`;
}

/** Events as marks for the time line. */
function marksOf(trip) {
  const colour = OUTCOME_COLOURS[trip.endedBy];
  const marks = trip.interventions.map(({ from, to }) => ({
    time: from, lane: 1, kind: "shield", colour: SHIELD_COLOUR,
    label: `the shield changes the command for ${(to - from).toFixed(1)} s`,
  }));
  const knot = trip.closest();
  marks.push({
    time: trip.t[knot], lane: 0, kind: "closest", colour: LIDAR_COLOUR,
    label: `closest: ${trip.clearance[knot].toFixed(2)} m`,
  });
  if (trip.reached !== null) {
    marks.push({ time: trip.reached, lane: 0, kind: "goal", colour: OUTCOME_COLOURS.success, label: "goal reached" });
  }
  if (trip.endedBy !== "success") {
    marks.push({ time: trip.duration, lane: 0, kind: `end ${trip.endedBy}`, colour, label: trip.outcome });
  }
  return marks.sort((a, b) => a.time - b.time);
}

/** A row of charts for each figure of the trip. */
function rowsOf(trip, now) {
  const { speedLimit, floor, ceiling, bodyRadius, goalRadius, lidarRange } = trip.params;
  const end = OUTCOME_COLOURS;
  const rows = [
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
  return rows.map(({ name, unit, digits, values, now: present, colour, low, high, limits }) => ({
    name, colour, low, high, limits,
    words: [{ text: `${present.toFixed(digits)} ${unit}`, colour: THEME.text }],
    lines: [{ values, now: present, colour }],
  }));
}
