"use strict";
/* The page of navrl watch: a list of runs and the page of some of them, both changed as the server says. */

const WATCH = JSON.parse(element("data").textContent);
const RUN_ID = /^[0-9a-f]{12}$/;
const SLOWEST_MS = 8000; // between two tries to reach the server

class Link {
  constructor(take) {
    this.take = take;
    this.state = element("link");
    this.wait = 500;
    this.wanted = { ids: [], follows: false };
    this.open();
  }

  open() {
    this.socket = new WebSocket(`${window.location.origin.replace(/^http/, "ws")}/live`);
    this.socket.addEventListener("open", () => {
      this.wait = 500;
      this.show("live", false);
      this.send();
    });
    this.socket.addEventListener("message", ({ data }) => this.take(JSON.parse(data)));
    this.socket.addEventListener("close", ({ reason }) => {
      this.show(reason || "the server is gone; trying again", true);
      setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(2 * this.wait, SLOWEST_MS);
    });
  }

  show(text, lost) {
    this.state.textContent = text;
    this.state.className = lost ? "lost" : "";
  }

  look(ids, follows) {
    this.wanted = { ids, follows };
    this.send();
  }

  send() {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(this.wanted));
  }
}

function start() {
  const state = made("output", "", "connecting");
  state.id = "link";
  element("outcome").replaceWith(state);
  document.querySelector("header").append(pageTools());
  const list = new RunList();
  const view = new RunView(WATCH.requests);
  const link = new Link((message) => {
    if (message.runs) list.take(message.runs, [], true);
    if (message.changed) list.take(message.changed, message.gone);
    if (message.page) view.take(message.page);
    if (!view.ids.length) headline(list);
  });
  const route = () => {
    const ids = /^#run=(.+)$/.exec(window.location.hash)?.[1].split(",") ?? [];
    const wrong = ids.find((id) => !RUN_ID.test(id));
    element("list").hidden = ids.length > 0;
    element("run").hidden = !ids.length;
    view.open(ids);
    if (!ids.length || wrong !== undefined) headline(list);
    link.look(wrong === undefined ? ids : [], view.follow.checked);
    if (wrong !== undefined) view.take({ ids, fault: `no run has the id ${wrong}; choose one of all runs` });
    window.scrollTo(0, 0);
  };
  view.follow.addEventListener("change", () => link.look(view.ids, view.follow.checked));
  window.addEventListener("hashchange", route);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Backspace" && view.ids.length && !event.target.matches("input, select")) window.location.hash = "";
  });
  route();
}

function headline(list) {
  const rows = [...list.rows.values()];
  const running = rows.filter((row) => row.state === "running").length;
  element("title").textContent = "navrl watch";
  element("subtitle").textContent = `${rows.length} runs${running ? `, ${running} training now` : ""}`;
  document.title = running ? `${running} training \u2013 navrl watch` : "navrl watch";
}

start();
