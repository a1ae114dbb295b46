"""The page of `navrl play env=navigation` in a real browser."""

import pytest

from tests.browser.conftest import DESKTOP, PHONE, Opened
from tests.browser.contrast import TOO_PALE
from tests.browser.playing import fits, served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("play")
    with served(folder, "world.count=1", "env.sim.time_limit_s=6", drone=True) as found:
        yield found


@pytest.mark.parametrize("settings", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_flight_by_keyboard_with_its_lidar(chromium, address, settings):
    page = Opened(chromium, address, settings)
    fits(page)
    page.page.keyboard.press("Enter")  # the button has the focus
    page.wait_for("play.trip !== null && play.trip.latest > 0.2", 60)
    for canvas in ("top-view", "graph-view"):
        assert page.pixels(canvas)[0] > 50
    fits(page)
    assert page.page.evaluate(TOO_PALE) == []
    assert page.page.evaluate("beamEnds(play.trip, play.trip.at(0.2), 'nearest').length") == 36
    page.page.keyboard.down("Shift")
    page.page.evaluate("window.dispatchEvent(new Event('blur'))")  # and let go in another window
    page.page.keyboard.down("d")
    assert page.page.evaluate("play.controls.stick.east") == 1
    page.page.keyboard.up("d")
    page.page.keyboard.up("Shift")
    for key, velocity in (("d", "vx"), ("w", "vy"), ("r", "vz")):
        page.page.keyboard.down(key)
        page.wait_for(f"play.trip.isOver || play.trip.{velocity}.at(-1) > 0.3")
        page.page.keyboard.up(key)
        if page.page.evaluate("play.trip.isOver"):
            break
    page.wait_for("document.getElementById('over').open", 60)
    assert page.page.inner_text("#verdict")
    fits(page)
    assert page.page.evaluate(TOO_PALE) == []
    assert page.page.inner_text("#kept").startswith("recorded in outputs/play/")
    page.context.close()
    assert page.problems == []
    assert [url for url in page.requests if not url.startswith(address)] == []
