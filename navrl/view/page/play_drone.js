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

class DronePlay {
  constructor(data) {
    this.data = data;
    this.trip = null;
    this.number = 0;
    this.speed = 1;
    this.ring = 0;
    this.controls = new DroneControls((stick) => this.sendStick(stick));
    this.link = new Link({
      opening: (message) => this.open(message),
      frame: (message) => this.frame(message),
      result: (message) => this.finish(message),
      error: (message) => this.fail(message.sentence),
    }, () => this.fail("The server has ended. Start navrl play again and reload this page."));
    this.connect();
    element("menu").showModal();
    requestAnimationFrame((now) => this.draw(now));
  }

  connect() {
    for (const speed of this.data.speeds) element("speed").add(new Option(`${speed} x`, String(speed)));
    element("speed").value = "1";
    element("speed").addEventListener("change", (event) => this.setSpeed(Number(event.target.value)));
    element("menu").addEventListener("close", () => { if (!element("fault").textContent) this.begin(); });
    const actions = {
      pause: "pause", again: "again", "over-again": "again", fit: "fit", lidar: "lidar",
      "help-button": "help", "help-close": "help",
    };
    for (const [id, name] of Object.entries(actions)) {
      element(id).addEventListener("click", () => {
        element(id).blur();
        this.press(name);
      });
    }
    listKeys(KEYS);
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("dialog, select")) return;
      const key = { "=": "+", _: "-" }[event.key] || event.key.toLowerCase();
      const found = KEYS.find(([name]) => name === key);
      if (!found || !found[1]) return;
      event.preventDefault();
      this.press(found[1]);
    });
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.pause(true); });
  }

  press(name) {
    const { speeds } = this.data;
    const step = (by) => speeds[clamp(speeds.indexOf(this.speed) + by, 0, speeds.length - 1)];
    const actions = {
      pause: () => this.pause(this.clock && this.clock.running),
      again: () => this.begin(),
      slower: () => this.setSpeed(step(-1)),
      faster: () => this.setSpeed(step(1)),
      lidar: () => this.setLidar(this.ring + 1),
      fit: () => this.toggleRoute(),
      help: () => this.toggleHelp(),
    };
    actions[name]();
  }

  begin() {
    element("over").close();
    element("outcome").textContent = "getting ready";
    this.link.send("new");
  }

  sendStick(stick) {
    if (!this.trip) return;
    this.number += 1;
    this.link.send("stick", { ...stick, number: this.number });
  }

  pause(stop) {
    if (!this.trip || this.trip.isOver) return;
    this.link.send(stop ? "pause" : "go");
    this.clock.set({ running: !stop }, performance.now());
    element("pause-icon").setAttribute("d", stop ? "M7 4v16l13-8z" : "M6 4h4.5v16H6zM13.5 4H18v16h-4.5z");
    element("outcome").textContent = stop ? "paused" : "";
  }

  setSpeed(speed) {
    this.speed = speed;
    element("speed").value = String(speed);
    element("speed").blur();
    this.link.send("speed", { speed });
    if (this.clock) this.clock.set({ speed }, performance.now());
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

  toggleHelp() {
    const help = element("help");
    if (help.open) help.close();
    else {
      this.pause(true);
      help.showModal();
    }
  }

  // ---- from the server ------------------------------------------------------------------------------

  open(message) {
    this.trip = new LiveTrip(message);
    this.limit = message.timeLimit;
    this.clock = new GameClock(message.tick);
    this.clock.speed = this.speed;
    const half = this.trip.landscape.solids.reduce((most, { x, y, reach }) => (
      Math.max(most, Math.abs(x) + reach, Math.abs(y) + reach)), message.params.sideLimit || 1);
    if (!this.map) this.map = new NavigationMap(element("top-view"), half, () => {});
    this.map.half = half;
    this.map.plane.byHand = false;
    this.jumped = true;
    document.title = message.title;
    element("title").textContent = message.title;
    element("subtitle").textContent = message.subtitle;
    this.setLidar(this.ring);
    this.link.send("speed", { speed: this.speed });
    this.sendStick(this.controls.stick);
    this.pause(false);
  }

  frame(message) {
    this.trip.frame(message);
    this.clock.frame(message.t, performance.now());
    this.answered = message.number;
  }

  finish(result) {
    if (result.left) return;
    const { trip } = this;
    trip.endedBy = result.kind;
    this.clock.set({ running: false }, performance.now());
    element("outcome").textContent = result.text;
    element("outcome").style.setProperty("--side", OUTCOME_COLOURS[result.kind]);
    element("verdict").textContent = result.text;
    element("verdict").style.setProperty("--side", OUTCOME_COLOURS[result.kind]);
    const total = result.score.reduce((sum, [, points]) => sum + points, 0);
    element("score").replaceChildren(...[...result.score, ["score", total]].map(([name, points]) => {
      const line = document.createElement("tr");
      for (const text of [name, points]) line.insertCell().textContent = text;
      return line;
    }));
    element("kept").textContent = `recorded in ${result.folder}`;
    element("replay").href = result.replay;
    setTimeout(() => { if (this.trip === trip) element("over").showModal(); }, 900);
  }

  fail(sentence) {
    element("outcome").textContent = sentence;
    element("fault").textContent = sentence;
    if (!element("menu").open) element("menu").showModal();
  }

  // ---- the picture ----------------------------------------------------------------------------------

  draw(now) {
    requestAnimationFrame((later) => this.draw(later));
    const step = this.last === undefined ? 0 : Math.min(0.1, (now - this.last) / 1000);
    this.last = now;
    if (!this.trip) return;
    if (this.clock.running) this.controls.poll();
    const instant = this.trip.at(this.clock.at(performance.now()));
    this.map.draw(this.trip, instant, this.jumped ? Infinity : step);
    this.jumped = false;
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
