"""A headless Chromium, and replay pages to open in it."""

import os
import shutil
import time
from pathlib import Path

import pytest

from navrl.view.combat_page import combat_page
from navrl.view.combat_recording import recording
from navrl.view.spacetime import spacetime_graph
from tests.view.fights import brawl, duel

_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {
    **{"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
    **{"is_mobile": True, "has_touch": True},
}


@pytest.fixture(scope="session")
def chromium():
    """The browser, or a skip where there is none; CI says that there must be one."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        reason = "no chromium is installed (Debian: apt-get install chromium)"
        pytest.fail(reason) if os.environ.get("NAVRL_NEEDS_BROWSER") else pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Replays on disk, by name."""
    folder = tmp_path_factory.mktemp("pages")
    for name, (params, states, _) in {"duel": duel(), "brawl": brawl()}.items():
        text = combat_page(
            recording(params, states),
            spacetime_graph,
            title=name,
            subtitle="seed 1",
            pilots=("ace", "bob"),
        )
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


class Opened:
    """A replay in a browser, with everything that went wrong in it."""

    def __init__(self, browser, file, settings):
        self.problems, self.requests = [], []
        self.context = browser.new_context(**settings)
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._listen)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri() if isinstance(file, Path) else file)
        self.settle()

    def _listen(self, message):
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def settle(self):
        """Wait until the picture of this instant is there."""
        self.page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))"
        )

    def wait_for(self, condition, most_s=20.0):
        """Until the JavaScript expression is true; the page's own policy forbids Playwright's way."""
        deadline_s = time.monotonic() + most_s
        while not self.page.evaluate(condition):
            assert time.monotonic() < deadline_s, condition
            self.page.wait_for_timeout(20)

    def seek(self, time_s):
        """Move the slider as a user does."""
        self.page.locator("#scrub").evaluate(
            "(s, t) => { s.value = t; s.dispatchEvent(new Event('input')); }", time_s
        )
        self.settle()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def clock_s(self):
        """The time that the page shows."""
        minutes, seconds = self.page.inner_text("#clock").split("/")[0].split(":")
        return 60 * int(minutes) + float(seconds)

    def pixels(self, canvas):
        """Return the number of colours of a canvas, and a digest of its picture."""
        return tuple(
            self.page.evaluate(
                """(id) => {
                  const shown = document.getElementById(id);
                  const copy = new OffscreenCanvas(shown.width, shown.height);
                  const pen = copy.getContext("2d", { willReadFrequently: true });
                  pen.drawImage(shown, 0, 0);
                  const { data } = pen.getImageData(0, 0, copy.width, copy.height);
                  const words = new Uint32Array(data.buffer);
                  let digest = 0;
                  for (const word of words) digest = (Math.imul(digest, 31) + word) | 0;
                  return [new Set(words).size, digest];
                }""",
                canvas,
            )
        )


@pytest.fixture
def show(chromium, pages):
    """show(name, phone=False) -> an opened replay; at the end nothing may have gone wrong in it."""
    opened = []

    def open_one(name, *, phone=False):
        file = name if isinstance(name, Path) else pages / f"{name}.html"
        opened.append(Opened(chromium, file, PHONE if phone else DESKTOP))
        return opened[-1]

    yield open_one
    for replay in opened:
        replay.context.close()
    for replay in opened:
        assert replay.problems == []
        assert [url for url in replay.requests if not url.startswith("file://")] == []
