"use strict";
/* The page of `navrl play`: a fight. */

const ALONE = { top: "top-view", graph: "graph-view" };

class CombatPlay extends GamePage {
  constructor(data) {
    super(data, KEYS);
    this.fight = null;
    this.target = -1;
    this.selected = 0;
    this.controls = new CombatStick((stick) => this.steer(stick), (name) => this.press(name));
    this.graph = new Graph3D(element("graph-view"), () => {});
    this.menu = new Menu(data);
    this.openMenu();
  }

  answers() {
    return { ...super.answers(), graph: (message) => this.takeGraph(message) };
  }

  // ---- from the player ------------------------------------------------------------------------------

  actions() {
    return {
      ...super.actions(),
      fire: () => this.fire(),
      target: () => this.nextTarget(),
      menu: () => this.leaveForMenu(),
      whose: () => this.selectNext(),
      fit: () => this.map && this.map.plane.release(),
      reach: () => this.toggleReach(),
      reset: () => this.graph.reset(),
      sound: () => this.toggleSound(),
      left: () => this.graph.turn(-0.12, 0),
      right: () => this.graph.turn(0.12, 0),
    };
  }

  /** Tab moves the focus where there is one enemy only. */
  takes(key) {
    return key !== "tab" || Boolean(this.fight && this.fight.aircraft.length > 2);
  }

  choice() {
    return this.menu.choice();
  }

  steer(stick) {
    if (!this.fight || this.fight.me === null) return;
    this.fight.steer(stick.rudder);
    this.command(false);
  }

  command(fire) {
    this.sendStick({ ...this.controls.stick, fire, target: this.target });
  }

  fire() {
    if (!this.fight || this.fight.me === null || !this.clock.running) return;
    this.command(true);
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
    this.command(false);
  }

  leaveForMenu() {
    this.pause(true);
    element("over").close();
    this.openMenu("", !this.isOver);
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

  // ---- from the server ------------------------------------------------------------------------------

  open(message) {
    this.fight = new LiveFight(message);
    this.target = -1;
    this.selected = message.you;
    const plane = this.map && this.map.plane;
    this.map = plane ? this.map : new LiveMap(element(ALONE.top), this.fight, () => {}, (index) => this.pick(index));
    this.map.fight = this.fight;
    this.map.plane.release();
    this.cockpit = new Cockpit(this.fight);
    this.cockpit.tones = this.tones || null;
    this.commentator = new Commentator(this.fight, (...line) => this.cockpit.announce(...line));
    this.controls.reset();
    this.introduce(message);
    this.go(message);
  }

  introduce({ sides, playing }) {
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
    super.frame(message);
    this.commentator.events(message);
    if (this.fight.me !== null) this.fight.steer(this.controls.stick.rudder);
  }

  takeGraph({ graphs, attack }) {
    this.fight.graphs = new GraphStore(graphs, this.fight.aircraft);
    this.fight.attack = attack;
  }

  showResult(result) {
    this.showTable(resultOf(result, this.fight.me !== null), result);
  }

  // ---- the picture ----------------------------------------------------------------------------------

  picture(time, step) {
    const instant = this.fight.at(time);
    this.map.draw(instant, this.selected, step);
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

const play = new CombatPlay(JSON.parse(element("data").textContent));
