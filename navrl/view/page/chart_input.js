"use strict";
/* Pointer, wheel, fingers and keys on a chart: values and zoom. */

const LEAST_DRAG = 8; // pixels of a selection
const NEAR = 26; // pixels from the pointer to a point that it names

window.addEventListener("scroll", () => Chart.pointed?.cursor && Chart.pointed.point(null), { passive: true });

/** Let pointer, wheel and keys move the cursor and zoom. */
function listenToChart(chart) {
  const { room } = chart;
  room.tabIndex = 0;
  room.setAttribute("role", "application");
  element("tooltip").setAttribute("role", "status");
  const fingers = new Map(); // on a touch screen, by pointer
  const placeOf = (event) => event.clientX - room.getBoundingClientRect().left;
  const shareOf = (where) => clamp((where - chart.drawn.left) / chart.drawn.span, 0, 1);
  const nearest = (event) => {
    const box = room.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    const distance = (stop) => Math.hypot(stop.x - left, stop.y === null ? 0 : stop.y - top);
    const best = chart.stops().reduce((a, b) => (a && distance(a) <= distance(b) ? a : b), null);
    return best && (best.y === null || distance(best) < NEAR) ? best : null;
  };
  room.addEventListener("pointerdown", (event) => {
    if (!chart.drawn || event.button > 0) return;
    if (event.pointerType === "mouse") chart.dragged = placeOf(event);
    else fingers.set(event.pointerId, placeOf(event));
    if (event.pointerType === "mouse") room.setPointerCapture(event.pointerId);
    chart.point(nearest(event), event);
  });
  room.addEventListener("pointermove", (event) => {
    if (!chart.drawn) return;
    if (fingers.size > 1 && fingers.has(event.pointerId)) pinch(chart, fingers, event.pointerId, placeOf(event), shareOf);
    else if (chart.dragged === null) chart.point(nearest(event), event);
    else select(chart, placeOf(event));
  });
  const up = (event) => {
    fingers.delete(event.pointerId);
    if (chart.dragged === null) return;
    const [from, to] = [chart.dragged, placeOf(event)].sort((a, b) => a - b).map(shareOf);
    const far = Math.abs(placeOf(event) - chart.dragged) > LEAST_DRAG;
    chart.dragged = null;
    if (far && event.type === "pointerup") chart.scaleAcross(to - from, 0, from);
    else chart.draw();
  };
  for (const name of ["pointerup", "pointercancel"]) room.addEventListener(name, up);
  room.addEventListener("pointerleave", ({ pointerType }) => { // a finger that is lifted leaves the values there
    if (pointerType === "mouse" && chart.dragged === null && chart.svg) chart.point(null);
  });
  room.addEventListener("dblclick", () => chart.zoom.set(null));
  room.addEventListener("blur", () => chart.svg && chart.point(null));
  room.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey)) return; // a plain wheel moves the page
    event.preventDefault();
    chart.scaleAcross(Math.exp(clamp(event.deltaY, -200, 200) * 0.003), shareOf(placeOf(event)));
  }, { passive: false });
  room.addEventListener("keydown", (event) => pressed(chart, event, shareOf));
}

/** Draw the range that is being selected. */
function select(chart, to) {
  const { left, span } = chart.drawn;
  const [low, high] = [chart.dragged, to].map((where) => clamp(where, left, left + span)).sort((a, b) => a - b);
  chart.selection.setAttribute("x", low);
  chart.selection.setAttribute("width", high - low);
  chart.selection.setAttribute("visibility", "visible");
  hideTip();
}

/** Two fingers keep what is under them. */
function pinch(chart, fingers, moved, to, shareOf) {
  const spread = () => {
    const [a, b] = [...fingers.values()].map(shareOf);
    return { size: Math.abs(a - b) || 0.01, middle: (a + b) / 2 };
  };
  const before = spread();
  fingers.set(moved, to);
  const after = spread();
  hideTip();
  chart.scaleAcross(before.size / after.size, after.middle, before.middle - after.middle);
}

function pressed(chart, event, shareOf) {
  if (event.ctrlKey || event.metaKey || event.altKey || !chart.drawn) return;
  const stops = chart.stops();
  const index = chart.cursor ? stops.findIndex(({ at }) => at === chart.cursor.at) : -1;
  const middle = index >= 0 ? shareOf(stops[index].x) : 0.5;
  const go = (to) => chart.point(stops[clamp(to, 0, stops.length - 1)] ?? null);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0;
  const acts = {
    ArrowLeft: () => (event.shiftKey ? chart.scaleAcross(1, 0.5, -0.25) : go(index < 0 ? stops.length - 1 : index + step)),
    ArrowRight: () => (event.shiftKey ? chart.scaleAcross(1, 0.5, 0.25) : go(index + step)),
    Home: () => go(0),
    End: () => go(stops.length - 1),
    "+": () => chart.scaleAcross(0.5, middle),
    "=": () => chart.scaleAcross(0.5, middle),
    "-": () => chart.scaleAcross(2, middle),
    Escape: () => chart.zoom.set(null),
    l: () => {
      chart.logarithmic = !chart.logarithmic;
      chart.draw();
    },
  };
  if (!acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
}
