"use strict";
/* The lidar of a drone seen from above: one ring of its beams, or what is nearest over the rings. */

const GROUND_M = 0.06; // a beam that ends no higher has met the ground

/** The modes of the display: nearest, every ring, nothing. */
function lidarModes({ elevations }) {
  const rings = elevations.map((angle, ring) => {
    const degrees = Math.round((angle * 180) / Math.PI);
    return { ring, label: `ring ${degrees > 0 ? "+" : ""}${degrees}\u00b0`.replace("-", "\u2212") };
  });
  return [{ ring: "nearest", label: "nearest" }, ...rings, { ring: "none", label: "off" }];
}

/** The ends of the beams: [{x, y, kind}] counter-clockwise; kind: hit, ground or free. */
function beamEnds(trip, now, ring) {
  const scan = ring === "none" ? null : trip.scanAt(now);
  if (!scan) return [];
  const { beams, elevations, lidarRange } = trip.params;
  const chosen = ring === "nearest" ? [...elevations.keys()] : [ring];
  return Array.from({ length: beams }, (_, beam) => {
    const best = chosen.reduce((a, b) => (scan[b * beams + beam] < scan[a * beams + beam] ? b : a));
    const free = scan[best * beams + beam] === Infinity;
    const slant = free ? lidarRange : scan[best * beams + beam];
    const across = slant * Math.cos(free && chosen.length > 1 ? 0 : elevations[best]);
    const angle = now.beam0 + (2 * Math.PI * beam) / beams;
    const low = now.z + slant * Math.sin(elevations[best]) < GROUND_M;
    const kind = free ? "free" : low ? "ground" : "hit";
    return { x: now.x + across * Math.cos(angle), y: now.y + across * Math.sin(angle), kind };
  });
}

function drawLidar(pen, plane, trip, now, ring) {
  const ends = beamEnds(trip, now, ring);
  if (!ends.length) return;
  const [x, y] = [plane.toX(now.x), plane.toY(now.y)];
  const reach = trip.params.lidarRange * plane.scale;
  const glow = pen.createRadialGradient(x, y, 0, x, y, reach);
  glow.addColorStop(0, tint(LIDAR_COLOUR, 0.26));
  glow.addColorStop(1, tint(LIDAR_COLOUR, 0.07));
  pen.fillStyle = glow;
  pen.beginPath();
  for (const end of ends) pen.lineTo(plane.toX(end.x), plane.toY(end.y));
  pen.closePath();
  pen.fill();
  for (const end of ends) drawBeam(pen, plane, end, [x, y]);
}

function drawBeam(pen, plane, end, origin) {
  const place = [plane.toX(end.x), plane.toY(end.y)];
  pen.strokeStyle = tint(LIDAR_COLOUR, end.kind === "hit" ? 0.3 : 0.1);
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(...origin);
  pen.lineTo(...place);
  pen.stroke();
  if (end.kind === "free") return;
  pen.fillStyle = end.kind === "hit" ? LIDAR_COLOUR : tint(THEME.muted, 0.7);
  dot(pen, ...place, end.kind === "hit" ? 2.6 : 1.6);
  pen.fill();
}
