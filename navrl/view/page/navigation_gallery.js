"use strict";
/* All episodes of the file at once, in miniature and on the same clock. */

const [LEAST_CELL, GAP] = [92, 6]; // pixels

class Gallery {
  /** opened(index): the user wants that trip in full; changed(): something else is to be drawn. */
  constructor(canvas, trips, half, { opened, changed }) {
    Object.assign(this, { canvas, trips, half, hovered: null, kept: null });
    canvas.addEventListener("click", (event) => {
      const index = this.indexAt(event);
      if (index !== null) opened(index);
    });
    const hover = (index) => {
      if (index === this.hovered) return;
      this.hovered = index;
      canvas.classList.toggle("pointing", index !== null);
      changed();
    };
    canvas.addEventListener("pointermove", (event) => hover(this.indexAt(event)));
    canvas.addEventListener("pointerleave", () => hover(null));
  }

  /** Pictures as large as all of them fit; where that is too small, the page scrolls. */
  arrange() {
    const { clientWidth: width, clientHeight: height } = this.canvas.parentElement;
    const count = this.trips.length;
    const sizeWith = (columns) => Math.min(width / columns, height / Math.ceil(count / columns));
    const choices = Array.from({ length: count }, (_, i) => i + 1);
    const best = choices.reduce((a, b) => (sizeWith(b) > sizeWith(a) ? b : a));
    const fits = sizeWith(best) >= LEAST_CELL;
    this.columns = fits ? best : clamp(Math.floor(width / LEAST_CELL), 1, count);
    this.cell = Math.floor(fits ? sizeWith(best) : width / this.columns);
    this.margin = Math.floor((width - this.columns * this.cell) / 2);
    this.canvas.style.height = `${Math.ceil(count / this.columns) * this.cell}px`;
  }

  draw(time, selected) {
    this.arrange();
    Object.assign(this, sized(this.canvas));
    this.drawWorlds();
    this.trips.forEach((trip, index) => this.drawCell(trip, index, time, index === selected));
  }

  pictureOf(index) {
    const [column, row] = [index % this.columns, Math.floor(index / this.columns)];
    const [left, top] = [this.margin + column * this.cell, row * this.cell];
    return new Miniature(left + GAP / 2, top + GAP / 2, this.cell - GAP, this.half);
  }

  indexAt({ offsetX, offsetY }) {
    if (!this.columns) return null;
    const column = Math.floor((offsetX - this.margin) / this.cell);
    const index = Math.floor(offsetY / this.cell) * this.columns + column;
    return column >= 0 && column < this.columns && index < this.trips.length ? index : null;
  }

  /** The obstacles are drawn once and kept as long as the size stays. */
  drawWorlds() {
    const { width, height } = this.canvas;
    if (!this.kept || this.kept.width !== width || this.kept.height !== height) {
      this.kept = new OffscreenCanvas(width, height);
      const pen = this.kept.getContext("2d");
      pen.scale(width / this.width, height / this.height);
      this.trips.forEach((trip, index) => {
        const picture = this.pictureOf(index);
        pen.fillStyle = "#111922";
        pen.fillRect(picture.left, picture.top, picture.size, picture.size);
        picture.drawWorld(pen, trip.landscape.solids, 0.8);
      });
    }
    this.pen.drawImage(this.kept, 0, 0, this.width, this.height);
  }

  drawCell(trip, index, time, selected) {
    const { pen } = this;
    const picture = this.pictureOf(index);
    const { left, top, size } = picture;
    const colour = OUTCOME_COLOURS[trip.kind];
    const over = time >= trip.duration;
    const now = picture.drawTrip(pen, trip, Math.min(time, trip.duration), colour, 1.8);
    const [x, y] = [picture.toX(now.x), picture.toY(now.y)];
    if (over) {
      drawEnding(pen, x, y, trip.kind, 4);
    } else {
      dot(pen, x, y, 3.2);
      pen.fillStyle = "#ffffff";
      pen.fill();
    }
    const strong = selected || index === this.hovered;
    pen.strokeStyle = strong ? "#ffffff" : tint(colour, over ? 0.9 : 0.5);
    pen.lineWidth = strong ? 2 : 1;
    pen.strokeRect(left, top, size, size);
    pen.font = `600 11px ${THEME.font}`;
    pen.textAlign = "left";
    pen.textBaseline = "top";
    outlined(pen, String(trip.number), left + 5, top + 4, tint(THEME.text, 0.9));
  }
}
