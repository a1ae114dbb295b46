"use strict";
/* Names and numbers beside the aircraft on the map, each where it covers nothing. */

const LINE_HEIGHT = 15; // pixels, like all lengths here
const CRAFT_ROOM = 12;
const MISSILE_ROOM = 8;
const NARROW = 500; // where a crowd has numbers instead of names
const CROWD = 4;

/** The selected aircraft chooses first; each label takes the first free place around its aircraft. */
function drawLabels(plane, now, selected) {
  const aircraft = shown(now.aircraft);
  const obstacles = [[aircraft, CRAFT_ROOM], [now.missiles, MISSILE_ROOM]];
  const taken = obstacles.flatMap(([list, room]) => list.map((item) => roomOf(plane, item, room)));
  const { offsetLeft: left, offsetTop: top, offsetWidth: width, offsetHeight: height } = element("sides");
  taken.push({ left, top, width, height });
  const order = [...aircraft].sort((a, b) => (b.index === selected) - (a.index === selected));
  for (const craft of order) {
    const full = craft.alive && (craft.index === selected || now.aircraft.length <= 2);
    const crowded = now.aircraft.length > CROWD && craft.index !== selected;
    const name = crowded && plane.width < NARROW ? craft.name.split(" ")[1] : craft.name;
    placeLabel(plane, craft, full ? [name, details(craft)] : [name], taken, crowded);
  }
}

function details(craft) {
  const missiles = craft.rounds > 99 ? "" : `  ${craft.rounds} left`;
  return `M ${craft.mach.toFixed(2)}  ${craft.load.toFixed(1)} g${missiles}`;
}

function roomOf(plane, { x, y }, room) {
  return { left: plane.toX(x) - room, top: plane.toY(y) - room, width: 2 * room, height: 2 * room };
}

/** No label where there is no free place. */
function placeLabel(plane, craft, lines, taken, crowded) {
  const { pen } = plane;
  pen.font = `600 12px ${THEME.font}`;
  pen.textAlign = "left";
  pen.textBaseline = "top";
  const width = Math.max(...lines.map((line) => pen.measureText(line).width));
  const height = lines.length * LINE_HEIGHT;
  const places = placesAround(plane, craft, width, height);
  const free = places.find((each) => taken.every((other) => apart(each, other)));
  if (!free && crowded) return;
  const place = free || places[0];
  taken.push(place);
  const shade = craft.alive ? 1 : 0.6;
  lines.forEach((line, i) => {
    pen.font = `${i ? "" : "600 "}12px ${THEME.font}`;
    const colour = i ? tint(THEME.text, 0.85) : tint(craft.colour, shade);
    outlined(pen, line, place.left, place.top + LINE_HEIGHT * i, colour);
  });
}

/** Behind the aircraft first, beside its trail: its future lies ahead. */
function placesAround(plane, craft, width, height) {
  const [x, y] = [plane.toX(craft.x), plane.toY(craft.y)];
  const [right, left] = [x + 18, x - 18 - width];
  const [behind, ahead] = Math.cos(craft.heading) < 0 ? [right, left] : [left, right];
  const [above, level, below] = [y - 6 - height, y - height / 2, y + 8];
  const [clear, other] = Math.sin(craft.heading) > 0 ? [above, below] : [below, above];
  return [
    [behind, clear], [behind, level], [behind, other], [x - width / 2, above - 12],
    [x - width / 2, below + 10], [ahead, other], [ahead, clear], [ahead, level],
  ].map(([across, down]) => ({
    left: clamp(across, 6, plane.width - width - 6),
    top: clamp(down, 6, plane.height - height - 6),
    width, height,
  }));
}

function apart(a, b) {
  return a.left > b.left + b.width || a.left + a.width < b.left
    || a.top > b.top + b.height || a.top + a.height < b.top;
}
