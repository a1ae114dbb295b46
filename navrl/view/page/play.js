"use strict";
/* The page of `navrl play`: messages of the server in, the stick out, a picture at every refresh. */

const ALONE = { top: "top-view", graph: "graph-view" };

class Play {
  constructor(data) {
    this.data = data;
    this.fight = null;
    this.number = 0;
    this.target = -1;
    this.speed = 1;
    this.selected = 0;
    this.controls = new Controls((stick) => this.steer(stick), (name) => this.press(name));
    this.graph = new Graph3D(element("graph-view"), () => {});
    this.menu = new Menu(data, (choice) => this.begin(choice));
    this.link = new Link({
      opening: (message) => this.open(message),
      frame: (message) => this.frame(message),
      graph: (message) => this.takeGraph(message),
      result: (message) => this.finish(message),
      error: (message) => this.fail(message.sentence),
    }, () => this.fail("The server has ended. Start navrl play again and reload this page."));
    this.connect();
    this.menu.open("", false);
    requestAnimationFrame((now) => this.draw(now));
  }

  connect() {
    for (const speed of this.data.speeds) element("speed").add(new Option(`${speed} x`, String(speed)));
    element("speed").value = "1";
    element("speed").addEventListener("change", (event) => this.setSpeed(Number(event.target.value)));
    const actions = {
      pause: "pause", again: "again", "over-again": "again", choose: "menu", "over-menu": "menu",
      whose: "whose", fit: "fit", reach: "reach", "graph-reset": "reset", sound: "sound",
      "help-button": "help", "help-close": "help",
    };
    for (const [id, name] of Object.entries(actions)) {
      element(id).addEventListener("click", () => {
        element(id).blur();
        this.press(name);
      });
    }
    listKeys(KEYS);
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.pause(true); });
  }

  // ---- from the player ------------------------------------------------------------------------------

  begin(choice) {
    this.choice = choice;
    element("over").close();
    element("outcome").textContent = "getting ready";
    this.link.send("new", choice);
  }

  steer(stick) {
    if (!this.fight || this.fight.me === null) return;
    this.fight.steer(stick.rudder);
    this.sendStick(false);
  }

  sendStick(fire) {
    this.number += 1;
    this.link.send("stick", { ...this.controls.stick, fire, target: this.target, number: this.number });
  }

  press(name) {
    const actions = {
      fire: () => this.fire(),
      target: () => this.nextTarget(),
      pause: () => this.pause(this.clock && this.clock.running),
      again: () => { if (this.choice) this.begin(this.choice); },
      menu: () => this.openMenu(),
      whose: () => this.selectNext(),
      fit: () => this.map && this.map.plane.release(),
      reach: () => this.toggleReach(),
      reset: () => this.graph.reset(),
      sound: () => this.toggleSound(),
      help: () => this.toggleHelp(),
      slower: () => this.changeSpeed(-1),
      faster: () => this.changeSpeed(1),
      left: () => this.graph.turn(-0.12, 0),
      right: () => this.graph.turn(0.12, 0),
    };
    actions[name]();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("dialog, select")) return;
    const key = { "=": "+", _: "-" }[event.key] || event.key.toLowerCase();
    const found = KEYS.find(([name]) => name === key);
    if (!found || !found[1]) return;
    if (key === "tab" && !(this.fight && this.fight.aircraft.length > 2)) return; // the focus moves
    event.preventDefault();
    this.press(found[1]);
  }

  fire() {
    if (!this.fight || this.fight.me === null || !this.clock.running) return;
    this.sendStick(true);
    if (!this.fight.ready) this.cockpit.beep(220, 0.08);
  }

  /** Around the living enemies. */
  nextTarget() {
    if (!this.fight || this.fight.me === null) return;
    const enemies = this.fight.aircraft.filter(({ side }) => side === 1);
    for (let step = 1; step <= enemies.length; step += 1) {
      const place = (this.target + step) % enemies.length;
      if (enemies[place].died !== null) continue;
      this.target = place;
      this.cockpit.announce(this.clock.at(performance.now()), `Target: ${enemies[place].name}`, enemies[place].colour);
      break;
    }
    this.sendStick(false);
  }

  pause(stop) {
    if (!this.fight || this.isOver) return;
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

  changeSpeed(steps) {
    const { speeds } = this.data;
    this.setSpeed(speeds[clamp(speeds.indexOf(this.speed) + steps, 0, speeds.length - 1)]);
  }

  openMenu() {
    this.pause(true);
    element("over").close();
    this.menu.open("", Boolean(this.fight) && !this.isOver);
  }

  selectNext() {
    if (!this.fight) return;
    const count = this.fight.aircraft.length;
    const living = (index) => this.fight.aircraft[index].died === null && !this.fight.aircraft[index].hidden;
    for (let step = 1; step <= count; step += 1) {
      const index = (this.selected + step) % count;
      if (!living(index)) continue;
      this.selected = index;
      break;
    }
    this.link.send("select", { index: this.selected });
  }

  toggleReach() {
    if (!this.map) return;
    this.map.showReach = !this.map.showReach;
    element("reach").setAttribute("aria-pressed", String(this.map.showReach));
  }

  toggleSound() {
    if (!this.cockpit) return;
    this.cockpit.tones = this.cockpit.tones ? null : new AudioContext();
    this.tones = this.cockpit.tones;
    element("sound").setAttribute("aria-pressed", String(Boolean(this.tones)));
    this.cockpit.beep(660, 0.08);
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
    this.fight = new LiveFight(message);
    this.clock = new GameClock(message.tick);
    this.clock.speed = this.speed;
    this.isOver = false;
    this.target = -1;
    this.selected = message.you;
    const plane = this.map && this.map.plane;
    this.map = plane ? this.map : new LiveMap(element(ALONE.top), this.fight, () => {}, (index) => this.pick(index));
    this.map.fight = this.fight;
    this.map.plane.release();
    this.jumped = true;
    this.cockpit = new Cockpit(this.fight);
    this.cockpit.tones = this.tones || null;
    this.commentator = new Commentator(this.fight, (...line) => this.cockpit.announce(...line));
    this.controls.reset();
    this.introduce(message);
    this.link.send("speed", { speed: this.speed });
    this.pause(false);
  }

  introduce({ title, subtitle, sides, playing }) {
    document.title = title;
    element("title").textContent = title;
    element("subtitle").textContent = subtitle;
    element("sides").replaceChildren(...sides.map((text, side) => {
      const line = document.createElement("span");
      line.textContent = text;
      line.style.setProperty("--side", sideColour(side));
      return line;
    }));
    element("banner").hidden = true;
    element("aim").hidden = this.fight.aircraft.length <= 2;
    document.body.classList.toggle("watching", !playing);
  }

  pick(index) {
    this.selected = index;
    this.link.send("select", { index });
  }

  frame(message) {
    this.fight.frame(message);
    this.clock.frame(message.t, performance.now());
    this.commentator.events(message);
    this.answered = message.number;
    if (this.fight.me !== null) this.fight.steer(this.controls.stick.rudder);
  }

  takeGraph({ graphs, attack }) {
    this.fight.graphs = new GraphStore(graphs, this.fight.aircraft);
    this.fight.attack = attack;
  }

  finish(result) {
    if (result.left) return;
    this.isOver = true;
    const { fight } = this;
    this.clock.set({ running: false }, performance.now());
    element("outcome").textContent = result.text;
    setTimeout(() => { if (this.fight === fight) showResult(result, fight.me !== null); }, 1200);
  }

  fail(sentence) {
    element("outcome").textContent = sentence;
    this.menu.open(sentence, false);
  }

  // ---- the picture ----------------------------------------------------------------------------------

  draw(now) {
    requestAnimationFrame((later) => this.draw(later));
    const step = this.last === undefined ? 0 : Math.min(0.1, (now - this.last) / 1000);
    this.last = now;
    if (!this.fight) return;
    if (this.clock.running) this.controls.poll(step);
    const instant = this.fight.at(this.clock.at(performance.now()));
    this.map.draw(instant, this.selected, this.jumped ? Infinity : step);
    this.jumped = false;
    this.cockpit.show(instant, this.selected, this.controls.stick);
    element("clock").textContent = clockText(instant.time);
    this.drawGraph(instant);
  }

  drawGraph(instant) {
    const own = instant.aircraft[this.selected];
    const graph = this.fight.graphs.at(instant.time, this.selected);
    const enemy = graph ? instant.aircraft[graph.enemy] : this.fight.enemyOf(instant, this.selected);
    const unseen = enemy.hidden && own.side === 0;
    showGraph(this.graph, unseen ? null : graph, instant, { own, enemy }, "");
    if (unseen) element("graph-title").textContent = `no contact with ${enemy.name}`;
  }
}

const play = new Play(JSON.parse(element("data").textContent));
