"""A server of `navrl play` in this process, and a player who flies by what the page shows."""

import argparse
import asyncio
import contextlib
import os
import threading

import uvicorn

from navrl.live.address import listen
from navrl.live.play.app import application
from navrl.live.play.choice import Choice
from navrl.live.play.games import CombatGames
from navrl.live.play.trip import DroneGames
from navrl.live.server import configuration
from navrl.view.html import PLAY, PLAY_DRONE

# Fly at the enemy until it cannot escape, fire, and turn out of the way of what comes.
HUNTER = """() => {
  const held = new Set();
  const hold = (key, on) => {
    if (held.has(key) === on) return;
    on ? held.add(key) : held.delete(key);
    const at = document.activeElement || document.body;
    at.dispatchEvent(new KeyboardEvent(on ? "keydown" : "keyup", { key, bubbles: true, cancelable: true }));
  };
  window.hunter = setInterval(() => {
    if (!play.fight || play.isOver) return;
    const now = play.fight.at(play.clock.at(performance.now()));
    const own = now.aircraft[0];
    const enemy = play.fight.enemyOf(now, 0);
    const off = Math.atan2(enemy.y - own.y, enemy.x - own.x) - own.heading;
    const turned = Math.atan2(Math.sin(off), Math.cos(off));
    hold("a", turned > 0.05);
    hold("d", turned < -0.05);
    const caught = play.fight.attack && Math.max(...play.fight.attack) < -500;
    const fire = Boolean(caught && play.fight.ready && Math.abs(turned) < 0.6);
    hold(" ", fire);
  }, 40);
}"""


BESIDE = """[...document.querySelectorAll("button, output, small, select, td, dialog[open]")].filter(
  (each) => each.getBoundingClientRect().right > window.innerWidth + 1).map((each) => each.outerHTML)"""


def fits(page):
    """Assert that nothing lies beside the screen and nothing is cut off in a dialog."""
    width = page.page.viewport_size["width"]
    assert page.page.evaluate("window.innerWidth") == width, (
        "a phone zooms out for what lies beside"
    )
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.page.evaluate(BESIDE) == []
    across = (
        "[...document.querySelectorAll('dialog[open]')].map((d) => d.scrollWidth - d.clientWidth)"
    )
    assert set(page.page.evaluate(across)) <= {0}


@contextlib.contextmanager
def served(folder, *overrides, seed=1, drone=False):
    """The address of a server whose games are recorded in `folder`."""
    before = os.getcwd()
    os.chdir(folder)
    if drone:
        scene, games = PLAY_DRONE, DroneGames(pilot="ace", overrides=overrides, seed=seed)
    else:
        first = Choice("crank")
        scene = PLAY
        games = CombatGames(first, pilot="ace", overrides=overrides, named=[], seed=seed)
    app = application(scene, games)
    listener = listen(argparse.Namespace(host="127.0.0.1", port=None, token=False), 0)
    port = listener.socket.getsockname()[1]
    server = uvicorn.Server(configuration(app, listener))
    server.capture_signals = contextlib.nullcontext
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener.socket])))
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join()
        listener.socket.close()
        os.chdir(before)
