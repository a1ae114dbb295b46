"""Measure `navrl play` as a player feels it: first screen, latency from key to picture, ticks a second.

    python scripts/bench_play.py                 # against crank, in the browser of this machine
    python scripts/bench_play.py zoo:combat-league team_size=2 --presses 200

Latencies end when the picture after the one that shows the effect begins, so what they end with was on the
screen. "shown": the own course on the map bends, pixel by pixel. "answered": a frame is drawn that the
simulator computed with the command.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

# The course 3 s ahead at full rudder: dark before the key, white after it.
_HOOKS = """() => {
  play.map.showReach = false;
  window.samples = { shown: [], answered: [], frames: [] };
  const waiting = [];
  document.addEventListener("keydown", (event) => {
    if (event.repeat || !["a", "d"].includes(event.key)) return;
    waiting.push({ at: event.timeStamp, number: play.number, shown: false, answered: false });
  });
  const bent = () => {
    const { map, fight, clock, controls } = play;
    const now = fight.at(clock.at(performance.now()));
    const own = now.aircraft[0];
    const rate = (own.speed * controls.stick.rudder) / fight.data.turnRadius;
    const place = ahead(own, rate, 3);
    const ratio = window.devicePixelRatio;
    const [x, y] = [map.plane.toX(place.x) * ratio, map.plane.toY(place.y) * ratio];
    const { data } = map.pen.getImageData(x - 4, y - 4, 9, 9);
    return data.some((_, i) => i % 4 === 0 && Math.min(data[i], data[i + 1], data[i + 2]) > 140);
  };
  const later = (name, at) => requestAnimationFrame(() => window.samples[name].push(performance.now() - at));
  play.draw = (now) => {
    GamePage.prototype.draw.call(play, now);
    window.samples.frames.push(now);
    for (const each of waiting) {
      const now = { shown: bent(), answered: play.answered >= each.number };
      for (const name of ["shown", "answered"]) {
        if (!each[name] && now[name]) { each[name] = true; later(name, each.at); }
      }
    }
    while (waiting.length && waiting[0].shown && waiting[0].answered) waiting.shift();
  };
}"""
_FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the measurement and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", default=["crank"], help="as for navrl play")
    parser.add_argument("--presses", type=int, default=100)
    options = parser.parse_args(arguments)
    from playwright.sync_api import sync_playwright

    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        # A far enemy, so that the fight lasts.
        words = [*options.words, "scenario.range_m=[44000,45000]"]
        server = subprocess.Popen(
            [sys.executable, "-m", "navrl.cli", "play", *words],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[2]
            served_s = time.monotonic() - began_s
            with sync_playwright() as playwright:
                path = shutil.which("chromium") or shutil.which("chromium-browser")
                browser = playwright.chromium.launch(executable_path=path, args=_FLAGS)
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                page.goto(address)
                page.locator("#begin").wait_for()
                first_s = time.monotonic() - began_s
                measured = _fly(page, options.presses)
        finally:
            server.terminate()
            server.wait()
    print(
        f"address printed {served_s:.1f} s after the command, first screen {first_s:.1f} s (browser included)"
    )
    _print(measured)


def _fly(page: Any, presses: int) -> dict[str, Any]:
    """Press keys at random moments of a fight; return the samples."""
    page.click("#begin")
    _wait(page, "play.fight !== null && play.fight.duration > 1")
    page.evaluate(_HOOKS)
    draw = random.Random(1)
    first = page.evaluate("[play.fight.duration, performance.now()]")
    for number in range(presses):
        key = "ad"[number % 2]
        page.keyboard.down(key)
        time.sleep(draw.uniform(0.08, 0.14))
        page.keyboard.up(key)
        time.sleep(draw.uniform(0.08, 0.14))
        if page.evaluate("play.isOver"):
            break
    last = page.evaluate("[play.fight.duration, performance.now()]")
    found: dict[str, Any] = page.evaluate("window.samples")
    seconds = (last[1] - first[1]) / 1e3
    found["rate"] = (last[0] - first[0]) / page.evaluate("play.clock.tick") / seconds
    return found


def _wait(page: Any, condition: str) -> None:
    deadline_s = time.monotonic() + 30.0
    while not page.evaluate(condition):
        if time.monotonic() > deadline_s:
            raise TimeoutError(condition)
        time.sleep(0.02)


def _print(found: dict[str, Any]) -> None:
    for name in ("shown", "answered"):
        values = sorted(found[name])
        p95 = values[int(0.95 * (len(values) - 1))]
        print(
            f"{name:<9} p50 {statistics.median(values):5.1f} ms  p95 {p95:5.1f} ms  of {len(values)} keys"
        )
    spans = [b - a for a, b in zip(found["frames"], found["frames"][1:], strict=False)]
    print(
        f"ticks     {found['rate']:.1f} a second; a picture every {statistics.median(spans):.1f} ms"
    )


if __name__ == "__main__":
    main()
