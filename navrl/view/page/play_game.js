"use strict";
/* The page of a game, whichever it is: its clock, buttons, keys, menu and result. */

const PAUSE_ICON = "M6 4h4.5v16H6zM13.5 4H18v16h-4.5z";
const GO_ICON = "M7 4v16l13-8z";
const SEEN_MS = 1200; // of the end, before the result covers it

class GamePage {
  /** keys: [key, action, what it does, its name on the list]. A game adds to actions() and answers(), sets
      `controls`, and has open(message), choice(), and picture(time, step). */
  constructor(data, keys) {
    this.data = data;
    this.keys = keys;
    this.speed = 1;
    this.number = 0; // of the last stick that was sent
    this.isOver = true; // or has not begun
    for (const each of document.querySelectorAll("template[data-into]")) element(each.dataset.into).append(each.content);
    this.link = new Link(this.answers(), () => this.fail("The server has ended. Start navrl play again and reload this page."));
    this.connectSpeed();
    this.connectButtons();
    this.connectMenu();
    listKeys(keys);
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.pause(true); });
    requestAnimationFrame((now) => this.draw(now));
  }

  /** What a button, a key or a gamepad does. */
  actions() {
    return {
      pause: () => this.pause(this.clock && this.clock.running),
      again: () => this.begin(this.chosen || this.choice()),
      slower: () => this.changeSpeed(-1),
      faster: () => this.changeSpeed(1),
      help: () => this.toggleHelp(),
    };
  }

  /** What follows from a message of the server. */
  answers() {
    return {
      opening: (message) => this.open(message),
      frame: (message) => this.frame(message),
      result: (message) => this.finish(message),
      error: (message) => this.fail(message.sentence),
    };
  }

  // ---- from the player ------------------------------------------------------------------------------

  connectSpeed() {
    for (const speed of this.data.speeds) element("speed").add(new Option(`${speed} x`, String(speed)));
    element("speed").value = "1";
    element("speed").addEventListener("change", (event) => this.setSpeed(Number(event.target.value)));
  }

  /** A button whose action the game lacks goes. */
  connectButtons() {
    const actions = this.actions();
    for (const button of document.querySelectorAll("[data-action]")) {
      const { action } = button.dataset;
      if (!(action in actions)) {
        button.remove();
        continue;
      }
      button.addEventListener("click", () => {
        button.blur();
        this.press(action);
      });
    }
  }

  connectMenu() {
    const menu = element("menu");
    menu.addEventListener("close", () => {
      if (menu.returnValue === "begin") this.begin(this.choice());
      else if (!this.canLeave) this.openMenu(element("fault").textContent); // a second Escape cannot be prevented
    });
    menu.addEventListener("cancel", (event) => { if (!this.canLeave) event.preventDefault(); });
  }

  openMenu(fault = "", canLeave = false) {
    this.canLeave = canLeave;
    element("fault").textContent = fault;
    element("menu").returnValue = "";
    if (!element("menu").open) element("menu").showModal();
  }

  press(name) {
    this.actions()[name]();
  }

  key(event) {
    if (!isForGame(event) && event.key !== "?") return; // the keys are listed over the menu too
    const key = { "=": "+", _: "-" }[event.key] || event.key.toLowerCase();
    const found = this.keys.find(([name]) => name === key);
    if (!found || !found[1] || !this.takes(key)) return;
    event.preventDefault();
    this.press(found[1]);
  }

  /** Whether a key of the list has a meaning now. */
  takes() {
    return true;
  }

  begin(choice) {
    this.chosen = choice;
    element("over").close();
    element("outcome").textContent = "getting ready";
    this.link.send("new", choice);
  }

  sendStick(fields) {
    this.number += 1;
    this.link.send("stick", { ...fields, number: this.number });
  }

  pause(stop) {
    if (this.isOver) return;
    this.link.send(stop ? "pause" : "go");
    this.clock.set({ running: !stop }, performance.now());
    element("pause-icon").setAttribute("d", stop ? GO_ICON : PAUSE_ICON);
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

  toggleHelp() {
    const help = element("help");
    if (help.open) help.close();
    else {
      this.pause(true);
      help.showModal();
    }
  }

  // ---- from the server ------------------------------------------------------------------------------

  /** Let the clock of a game that has been opened run. */
  go({ tick, title, subtitle }) {
    this.clock = new GameClock(tick);
    this.clock.speed = this.speed;
    this.isOver = false;
    this.jumped = true; // the picture, to another game
    document.title = title;
    element("title").textContent = title;
    element("subtitle").textContent = subtitle;
    this.link.send("speed", { speed: this.speed });
    this.pause(false);
  }

  frame(message) {
    this.clock.frame(message.t, performance.now());
    this.answered = message.number;
  }

  /** The end of a game; a game that was left has no more to show. */
  finish(result) {
    if (result.left) return;
    this.isOver = true;
    const { clock } = this;
    clock.set({ running: false }, performance.now());
    element("outcome").textContent = result.text;
    setTimeout(() => { if (this.clock === clock) this.showResult(result); }, SEEN_MS);
  }

  /** verdict and its colour, how it came, score: [what, points], ratings: rows, the first is their head. */
  showTable({ verdict, colour, how = "", score = null, ratings = [] }, { folder, replay }) {
    element("verdict").textContent = verdict;
    element("verdict").style.setProperty("--side", colour);
    element("how").textContent = how;
    const total = (lines) => lines.reduce((sum, [, points]) => sum + points, 0);
    element("score").replaceChildren(...(score ? [...score, ["score", total(score)]].map(row) : []));
    element("ratings").tHead.replaceChildren(...ratings.slice(0, 1).map(row));
    element("ratings").tBodies[0].replaceChildren(...ratings.slice(1).map(row));
    element("kept").textContent = `recorded in ${folder}`;
    element("replay").href = replay;
    element("over").showModal();
  }

  fail(sentence) {
    element("outcome").textContent = sentence;
    this.openMenu(sentence);
  }

  // ---- the picture ----------------------------------------------------------------------------------

  draw(now) {
    requestAnimationFrame((later) => this.draw(later));
    const step = this.last === undefined ? 0 : Math.min(0.1, (now - this.last) / 1000);
    this.last = now;
    if (!this.clock) return;
    if (this.clock.running) this.controls.poll(step);
    this.picture(this.clock.at(performance.now()), this.jumped ? Infinity : step);
    this.jumped = false;
  }
}

function row(cells) {
  const line = document.createElement("tr");
  for (const text of cells) line.insertCell().textContent = text;
  return line;
}

/** Fill the dialog with the keys [key, action, what it does, its name on the list]. */
function listKeys(keys) {
  for (const [key, , text, name] of keys) {
    const term = document.createElement("dt");
    term.textContent = name || key.toUpperCase();
    const meaning = document.createElement("dd");
    meaning.textContent = text;
    element("keys").append(term, meaning);
  }
}
