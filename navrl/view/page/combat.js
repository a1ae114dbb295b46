"use strict";
/* A recorded fight as a scene for the player: map, space-time graph, numbers. */

class CombatScene {
  constructor(data) {
    this.fight = new Fight(data);
    this.duration = data.duration;
    this.marks = this.fight.marks();
    this.bands = [];
    this.rhythm = SECONDS;
    this.speed = 4;
    this.selected = 0;
    this.redraw = () => {};
    const changed = () => this.redraw();
    const picked = (index) => this.select(index);
    this.map = new CombatMap(element("top-view"), this.fight, changed, picked);
    this.graph = new Graph3D(element("graph-view"), changed);
    this.panel = new Panel(this.fight, picked);
    this.keys = this.makeKeys();
    this.connect();
    this.introduce(data);
  }

  makeKeys() {
    const count = Math.min(9, this.fight.aircraft.length);
    const selecting = Array.from({ length: count }, (_, index) => [
      String(index + 1), index ? "" : "select an aircraft", () => this.select(index), `1 .. ${count}`,
    ]);
    return [
      ...selecting,
      ["g", "select the next one", () => this.selectNext()],
      ["f", "show everybody on the map", () => this.map.plane.release()],
      ["r", "escape lines and reach on the map", () => this.toggleReach()],
      ["q", "turn the graph left", () => this.graph.turn(-0.12, 0)],
      ["e", "turn the graph right", () => this.graph.turn(0.12, 0)],
      ["0", "turn the graph back", () => this.graph.reset()],
    ];
  }

  connect() {
    element("fit").addEventListener("click", () => this.map.plane.release());
    element("reach").addEventListener("click", () => this.toggleReach());
    element("graph-reset").addEventListener("click", () => this.graph.reset());
    element("whose").addEventListener("click", () => this.selectNext());
  }

  introduce(data) {
    document.title = data.title;
    element("title").textContent = data.title;
    element("subtitle").textContent = data.subtitle;
    element("sides").replaceChildren(...data.sides.map((text, side) => {
      const line = document.createElement("span");
      line.textContent = text;
      line.style.setProperty("--side", sideColour(side));
      return line;
    }));
    const colour = data.winner === null ? THEME.pale : sideColour(data.winner);
    for (const id of ["outcome", "banner"]) {
      element(id).textContent = data.outcome;
      element(id).style.setProperty("--side", colour);
    }
  }

  select(index) {
    this.selected = index;
    this.redraw();
  }

  /** The next one that lives, else the next one. */
  selectNext() {
    const { aircraft } = this.map.now;
    const others = aircraft.map((_, step) => aircraft[(this.selected + 1 + step) % aircraft.length]);
    this.select((others.find((craft) => craft.alive) || others[0]).index);
  }

  toggleReach() {
    this.map.showReach = !this.map.showReach;
    element("reach").setAttribute("aria-pressed", String(this.map.showReach));
    this.redraw();
  }

  draw(time, step) {
    const now = this.fight.at(time);
    const moving = this.map.draw(now, this.selected, step);
    this.drawGraph(time);
    this.panel.show(now, this.selected);
    element("banner").hidden = time < this.duration - 0.01;
    return moving;
  }

  /** Whoever is dead, or has no enemy left, keeps the last graph there was, paler. */
  drawGraph(time) {
    const { graphs } = this.fight;
    const instant = Math.min(time, graphs.lastTime(this.selected));
    const now = this.fight.at(instant);
    const own = now.aircraft[this.selected];
    const graph = graphs.at(instant, this.selected);
    const enemy = graph ? now.aircraft[graph.enemy] : this.fight.enemyOf(now, this.selected);
    const past = instant < time - 0.01;
    showGraph(this.graph, graph, now, { own, enemy }, past ? `, as it was at ${clockText(instant)}` : "");
    element("graph").classList.toggle("past", past);
  }
}

const scene = new CombatScene(JSON.parse(element("data").textContent));
const player = new Player(scene);
scene.redraw = () => player.show();
