"use strict";
/* The page of `navrl play env=navigation`. */

const KEYS = [
  ["w", null, "north", "W or \u2191"], ["s", null, "south", "S or \u2193"],
  ["a", null, "west", "A or \u2190"], ["d", null, "east", "D or \u2192"],
  ["r", null, "climb"], ["f", null, "descend"], ["shift", null, "slowly", "Shift"],
  ["p", "pause", "pause or go on"], ["n", "again", "another flight"],
  ["-", "slower", "slower"], ["+", "faster", "faster"],
  ["l", "lidar", "next ring of the lidar"], ["g", "fit", "whole route, or follow the drone"],
  ["?", "help", "this list"],
];

class DronePlay extends GamePage {
  constructor(data) {
    super(data, KEYS);
    this.trip = null;
    this.ring = 0;
    this.controls = new DroneStick((stick) => { if (this.trip) this.sendStick(stick); });
    this.openMenu();
  }

  actions() {
    return {
      ...super.actions(),
      lidar: () => this.setLidar(this.ring + 1),
      fit: () => this.toggleRoute(),
    };
  }

  /** A flight is like every other. */
  choice() {
    return {};
  }

  setLidar(ring) {
    if (!this.trip) return;
    const modes = lidarModes(this.trip.params);
    this.ring = ring % modes.length;
    this.map.ring = modes[this.ring].ring;
    element("lidar").textContent = `Lidar: ${modes[this.ring].label}`;
  }

  toggleRoute() {
    if (!this.map) return;
    this.map.whole = !this.map.whole;
    element("fit").setAttribute("aria-pressed", String(this.map.whole));
    this.map.plane.release();
  }

  // ---- from the server ------------------------------------------------------------------------------

  open(message) {
    this.trip = new LiveTrip(message);
    this.limit = message.timeLimit;
    const half = this.trip.landscape.solids.reduce((most, { x, y, reach }) => (
      Math.max(most, Math.abs(x) + reach, Math.abs(y) + reach)), message.params.sideLimit || 1);
    if (!this.map) this.map = new NavigationMap(element("top-view"), half, () => {});
    this.map.half = half;
    this.map.plane.byHand = false;
    this.setLidar(this.ring);
    this.sendStick(this.controls.stick);
    this.go(message);
  }

  frame(message) {
    this.trip.frame(message);
    super.frame(message);
  }

  finish(result) {
    super.finish(result);
    if (result.left) return;
    this.trip.endedBy = result.kind;
    element("outcome").style.setProperty("--side", OUTCOME_COLOURS[result.kind]);
  }

  showResult(result) {
    this.showTable({ verdict: result.text, colour: OUTCOME_COLOURS[result.kind], score: result.score }, result);
  }

  // ---- the picture ----------------------------------------------------------------------------------

  picture(time, step) {
    const instant = this.trip.at(time);
    this.map.draw(this.trip, instant, step);
    drawPanorama(element("graph-view"), this.trip, instant);
    this.show(instant);
  }

  show(now) {
    const { trip } = this;
    const { bodyRadius, lidarRange } = trip.params;
    const free = now.clearance >= lidarRange - 0.01;
    const facts = {
      pace: now.speed.toFixed(1), height: now.z.toFixed(1), clear: free ? `${lidarRange} +` : now.clearance.toFixed(1),
      away: now.distance.toFixed(1), left: Math.max(0, this.limit - now.time).toFixed(0), clock: clockText(now.time),
    };
    for (const [id, text] of Object.entries(facts)) element(id).textContent = text;
    const close = now.clearance < 2.5 * bodyRadius;
    const warning = close ? `${now.clearance.toFixed(2)} m clear` : now.changed ? "the shield steers" : "";
    if (element("warning").textContent !== warning) element("warning").textContent = warning;
    element("warning").classList.toggle("near", close);
    this.showLines(now);
  }

  showLines(now) {
    const moving = this.trip.moversAt(now).filter(({ near }) => near);
    const [mine, theirs] = [element("mine"), element("theirs")];
    mine.style.setProperty("--side", OUTCOME_COLOURS.success);
    mine.children[0].textContent = `${now.distance.toFixed(1)} m to the goal`;
    const height = this.trip.goal.z - now.z;
    mine.children[1].textContent = Math.abs(height) < 0.3 ? "at your height" : `${Math.abs(height).toFixed(1)} m ${height > 0 ? "above" : "below"} you`;
    theirs.style.setProperty("--side", MOVER_COLOUR);
    theirs.children[0].textContent = moving.length ? `${moving.length} moving near you` : "nothing moves near you";
    const gap = moving.length ? Math.max(0, moving[0].away - moving[0].radius) : 0;
    theirs.children[1].textContent = moving.length ? `the nearest ${gap.toFixed(1)} m away` : "";
  }
}

const play = new DronePlay(JSON.parse(element("data").textContent));
