"use strict";
/* Mouse, wheel and fingers on a canvas, reported as dragging, zooming and tapping. */

const TAP_DISTANCE = 6; // pixels a finger may slip

/** to: {drag(dx, dy), zoom(factor, x, y), tap(x, y)}, in pixels of the canvas. */
function trackPointers(canvas, to) {
  const down = new Map();
  let slipped = 0;

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const spread = () => {
    const [a, b] = [...down.values()];
    return { distance: Math.hypot(a.x - b.x, a.y - b.y) || 1, x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, place(event));
    slipped = down.size > 1 ? Infinity : 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const old = down.get(event.pointerId);
    if (!old) return;
    const before = down.size > 1 ? spread() : null;
    const now = place(event);
    down.set(event.pointerId, now);
    if (before) {
      const after = spread();
      to.zoom(after.distance / before.distance, after.x, after.y);
      to.drag(after.x - before.x, after.y - before.y);
      return;
    }
    slipped += Math.hypot(now.x - old.x, now.y - old.y);
    if (slipped > TAP_DISTANCE) to.drag(now.x - old.x, now.y - old.y);
  });
  const up = (event) => {
    const last = down.get(event.pointerId);
    down.delete(event.pointerId);
    if (last && event.type === "pointerup" && slipped <= TAP_DISTANCE) to.tap(last.x, last.y);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    const { x, y } = place(event);
    to.zoom(Math.exp(-clamp(event.deltaY * lines, -200, 200) * 0.002), x, y);
  }, { passive: false });
}
