"use strict";
/* The line to the server, and the time of the game on this side of it. */

const SLACK = 2.5; // ticks that the picture may be ahead of the last frame

class Link {
  /** on: {type: (message) => ...}; gone(): the server has ended. */
  constructor(on, gone) {
    const address = new URL("live", window.location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(address);
    this.socket.addEventListener("message", (event) => {
      const message = JSON.parse(event.data);
      on[message.type](message);
    });
    this.socket.addEventListener("close", gone);
  }

  send(type, fields = {}) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type, ...fields }));
  }
}

/** The time of the game at any moment, smoothed over the frames that come a little early or late. */
class GameClock {
  constructor(tick) {
    this.tick = tick;
    this.speed = 1;
    this.running = false;
    this.latest = 0;
    this.anchor = { wall: 0, game: 0 };
  }

  /** now in ms */
  at(now) {
    const { wall, game } = this.anchor;
    const time = game + (this.running ? ((now - wall) / 1000) * this.speed : 0);
    return clamp(time, 0, this.latest + SLACK * this.tick);
  }

  frame(time, now) {
    this.latest = time;
    const off = time - this.at(now);
    const share = Math.abs(off) > 0.25 * Math.max(1, this.speed) ? 1 : 0.1;
    this.anchor = { wall: now, game: this.at(now) + share * off };
  }

  set(changes, now) {
    this.anchor = { wall: now, game: this.at(now) };
    Object.assign(this, changes);
  }
}
