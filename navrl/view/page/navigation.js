"use strict";
/* Recorded trips as a scene for the player: one in full with its charts, or all of them in miniature. */

class NavigationScene {
  constructor(data) {
    this.data = data;
    const landscapes = data.landscapes.map((raw) => ({ solids: solidsOf(raw) }));
    this.trips = data.trips.map((raw, index) => new Trip(raw, index, data, landscapes));
    this.modes = lidarModes(data.params);
    this.showsAll = false;
    this.rhythm = SECONDS;
    this.speed = 1;
    this.lastTime = 0;
    // Nobody can look before there is a player.
    Object.assign(this, { redraw: () => {}, seek: () => {}, reload: () => {} });
    const half = extentOf(this.trips);
    this.map = new NavigationMap(element("top-view"), half, () => this.redraw());
    this.charts = new Charts(element("charts-view"), (time) => this.seek(time));
    this.gallery = new Gallery(element("gallery-view"), this.trips, half, {
      opened: (index) => this.open(index), changed: () => this.redraw(),
    });
    this.keys = this.makeKeys();
    this.connect();
    this.introduce();
    this.select(data.chosen);
    this.setLidar(0);
  }

  makeKeys() {
    const rings = this.modes.length - 2;
    return [
      ["l", "next ring of the lidar", () => this.setLidar(this.mode + 1)],
      ["0", "the nearest over all rings", () => this.setLidar(0)],
      ...Array.from({ length: Math.min(9, rings) }, (_, ring) => [
        String(ring + 1), ring ? "" : "one ring of the lidar", () => this.setLidar(ring + 1), `1 .. ${Math.min(9, rings)}`,
      ]),
      ["f", "whole route, or follow the drone", () => this.toggleRoute()],
      ["a", "all episodes, or one", () => this.showAll(!this.showsAll)],
      ["n", "next episode", () => this.next(1)],
      ["p", "previous episode", () => this.next(-1)],
    ];
  }

  connect() {
    element("lidar").addEventListener("click", () => this.setLidar(this.mode + 1));
    element("route").addEventListener("click", () => this.toggleRoute());
    element("all").addEventListener("click", () => this.showAll(true));
    element("back").addEventListener("click", () => this.showAll(false));
  }

  introduce() {
    const { data, trips } = this;
    document.title = data.title;
    element("title").textContent = data.title;
    element("all").textContent = `All ${trips.length}`;
    element("all").hidden = trips.length < 2;
    element("fastest").textContent = `0 .. ${data.params.speedLimit} m/s`;
    element("tallest").textContent = `0 .. ${TALL_M} m`;
    element("strip").append(...(trips.length > 1 ? stripOf(trips, (index) => this.open(index)) : []));
    for (const id of trips.length > 1 ? ["tally", "gallery-tally"] : []) {
      element(id).replaceChildren(...tallyOf(data.outcomes, trips));
    }
    document.body.style.setProperty("--ramp-speed", `linear-gradient(to right, ${SPEED_COLOURS.join(", ")})`);
    document.body.style.setProperty("--ramp-heights", `linear-gradient(to right, ${HEIGHT_COLOURS.join(", ")})`);
    element("lidar").hidden = trips.every((trip) => trip.scans === null);
  }

  // ---- what is shown ------------------------------------------------------------------------------

  get duration() {
    return this.showsAll ? Math.max(...this.trips.map((trip) => trip.duration)) : this.trip.duration;
  }

  get marks() {
    return this.showsAll ? [] : marksOf(this.trip);
  }

  get bands() {
    if (this.showsAll) return [];
    return this.trip.interventions.map(({ from, to }) => ({ from, to, lane: 1, colour: SHIELD_COLOUR }));
  }

  select(index) {
    this.trip = this.trips[index];
    this.name();
    [...element("strip").children].forEach((pip, i) => pip.setAttribute("aria-current", String(i === index)));
    this.map.plane.byHand = false;
    this.jumped = true;
  }

  /** Write the heading of the page. */
  name() {
    const { trip, trips, showsAll } = this;
    const [first, last] = [trips[0].number, trips[trips.length - 1].number];
    const which = showsAll ? `episodes ${first} to ${last}` : `episode ${trip.number}`;
    element("subtitle").textContent = `${this.data.subtitle}, ${which}`;
    const reached = trips.filter(({ kind }) => kind === "success").length;
    element("outcome").textContent = showsAll ? `${reached} of ${trips.length} goals reached` : trip.outcome;
    element("outcome").style.setProperty("--side", showsAll ? THEME.pale : OUTCOME_COLOURS[trip.kind]);
    element("banner").textContent = trip.outcome;
    element("banner").style.setProperty("--side", OUTCOME_COLOURS[trip.kind]);
  }

  open(index) {
    this.select(index);
    this.showAll(false);
  }

  next(step) {
    const count = this.trips.length;
    this.select((this.trip.index + step + count) % count);
    this.reload();
  }

  showAll(all) {
    this.showsAll = all && this.trips.length > 1;
    element("gallery").hidden = !this.showsAll;
    for (const id of ["top", "side"]) element(id).hidden = this.showsAll;
    this.name();
    this.reload();
  }

  setLidar(mode) {
    this.mode = mode % this.modes.length;
    this.map.ring = this.modes[this.mode].ring;
    element("lidar").textContent = `Lidar: ${this.modes[this.mode].label}`;
    this.redraw();
  }

  toggleRoute() {
    const following = !this.map.whole && !this.map.plane.byHand;
    this.map.whole = following;
    element("route").setAttribute("aria-pressed", String(this.map.whole));
    this.map.plane.release();
  }

  // ---- drawing ------------------------------------------------------------------------------------

  draw(time, step) {
    if (this.showsAll) return this.drawAll(time);
    const now = this.trip.at(time);
    // While it plays fast the camera has to keep up with the drone, not with the clock on the wall.
    const pace = this.jumped ? Infinity : Math.max(step, Math.abs(time - this.lastTime));
    [this.lastTime, this.jumped] = [time, false];
    const moving = this.map.draw(this.trip, now, pace);
    this.charts.draw({
      t: this.trip.t, duration: this.trip.duration, time: now.time, rows: rowsOf(this.trip, now), bands: this.bands,
    }, SECONDS);
    element("situation").replaceChildren(...situation(this.trip, now, this.trip.moversAt(now)));
    element("banner").hidden = time < this.trip.duration - 0.01;
    return moving;
  }

  drawAll(time) {
    this.gallery.draw(time, this.trip.index);
    const { hovered } = this.gallery;
    const hint = "Choose an episode to see it in full";
    element("gallery-hint").textContent = hovered === null ? hint : captionOf(this.trips[hovered]);
    return false;
  }
}

/** Half the width of a square that holds every world and every trip. */
function extentOf(trips) {
  let half = 1;
  for (const { landscape, start, goal, x, y } of trips) {
    for (const solid of landscape.solids) {
      half = Math.max(half, Math.abs(solid.x) + solid.reach, Math.abs(solid.y) + solid.reach);
    }
    for (const value of [start.x, start.y, goal.x, goal.y, ...x, ...y]) half = Math.max(half, Math.abs(value));
  }
  return half + 2;
}

const scene = new NavigationScene(JSON.parse(element("data").textContent));
const player = new Player(scene);
scene.redraw = () => player.show();
scene.seek = (time) => player.seek(time);
scene.reload = () => player.load();
