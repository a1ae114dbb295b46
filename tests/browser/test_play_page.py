"""The page of `navrl play` in a real browser, with the server and the simulator behind it."""

import json

import pytest
import torch

from tests.browser.conftest import DESKTOP, PHONE, Opened
from tests.browser.contrast import TOO_PALE
from tests.browser.playing import HUNTER, fits, served
from tests.live.play.recorded import flown_again, read_back

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("play")


@pytest.fixture(scope="module")
def address(folder):
    with served(folder, "scenario.range_m=[9000,10000]") as found:
        yield found


@pytest.fixture
def visit(chromium, address):
    """visit(phone=False, **choice) -> a page on which the fight of this choice goes on, or its menu."""
    opened = []

    def open_one(*, phone=False, begins=True, **choice):
        opened.append(Opened(chromium, address, PHONE if phone else DESKTOP))
        page = opened[-1]
        if not begins:
            return page
        for name, value in choice.items():
            page.page.select_option(f"select[name={name}]", value)
        page.page.click("#begin")
        page.wait_for("play.fight !== null && play.fight.duration > 0.2")
        return page

    yield open_one
    for page in opened:
        page.context.close()
    for page in opened:
        assert page.problems == []
        assert [url for url in page.requests if not url.startswith(address)] == []


@pytest.mark.parametrize("phone", [False, True])
def test_both_pictures_move(visit, phone):
    page = visit(phone=phone, opponent="straight")
    for canvas in ("top-view", "graph-view"):
        colours, before = page.pixels(canvas)
        assert colours > 50
        page.wait_for(f"play.fight.duration > {page.page.evaluate('play.fight.duration') + 0.6}")
        assert page.pixels(canvas)[1] != before
    fits(page)
    assert page.page.evaluate(TOO_PALE) == []
    page.press("?")
    fits(page)
    assert page.page.evaluate(TOO_PALE) == []


def test_the_keyboard_steers_the_simulator(visit):
    page = visit(opponent="straight")
    page.page.keyboard.down("a")
    page.wait_for("play.fight.aircraft[0].rudder.at(-1) === 1")
    page.page.keyboard.down("Shift")
    page.wait_for("play.fight.aircraft[0].rudder.at(-1) === 0.5")
    page.page.keyboard.up("Shift")
    page.page.keyboard.up("a")
    page.page.keyboard.down("ArrowRight")
    page.wait_for("play.fight.aircraft[0].rudder.at(-1) === -1")
    page.page.keyboard.up("ArrowRight")
    page.page.keyboard.down("s")
    page.wait_for("play.fight.aircraft[0].throttle < 0.5")
    page.page.keyboard.up("s")
    page.page.keyboard.press(" ")
    page.wait_for("play.fight.missiles.length === 1")
    assert page.page.evaluate("play.fight.missiles[0].carrier") == 0
    page.wait_for("document.getElementById('feed').innerText.includes('You fire at Blue')")


def test_pause_speed_and_again(visit):
    page = visit(opponent="straight")
    page.press("p")
    page.page.wait_for_timeout(300)
    before = page.page.evaluate("play.fight.duration")
    page.page.wait_for_timeout(300)
    assert page.page.evaluate("play.fight.duration") == before
    page.press("p", "+")
    assert page.page.evaluate("play.speed") == 2
    page.wait_for(f"play.fight.duration > {before + 1}")
    page.press("n")
    page.wait_for("play.fight.duration < 0.5")
    page.press("?")
    assert "turn gently" in page.page.inner_text("#keys")


def test_the_hunter_wins_against_straight_and_the_record_says_so(visit, folder):
    page = visit(opponent="straight")
    page.page.evaluate("play.setSpeed(4)")
    page.page.evaluate(HUNTER)
    page.wait_for("document.getElementById('over').open", 120)
    assert page.page.inner_text("#verdict") == "You win"
    assert "straight" in page.page.inner_text("#ratings")
    assert page.page.evaluate(TOO_PALE) == []
    result = page.page.inner_text("#kept").removeprefix("recorded in ")
    with page.context.expect_page() as opening:
        page.page.click("#replay")
    replay = opening.value
    replay.wait_for_selector("#scrub", timeout=60_000)
    assert "Red wins" in replay.inner_text("#outcome")
    assert result.startswith("outputs/play/")
    # What the browser's keys have flown is flown again from the recorded actions, to the last bit.
    config, seed, stored = read_back(folder / result)
    again = flown_again(config, seed, stored["action"])
    for key in stored.keys(True, True):
        assert torch.equal(again[key], stored[key]), key
    assert stored["next", "terminated"].flatten().nonzero().tolist() == [[stored.shape[1] - 1]]


def test_the_table_at_the_end_fits_a_phone(visit, folder):
    for number in range(6):
        other = folder / f"outputs/play/2020-{number}"
        other.mkdir(parents=True, exist_ok=True)
        facts = {"pilot": "ace", "opponent": f"2 x combat-scripts-{number} (normal)", "result": -1}
        (other / "fight.json").write_text(json.dumps(facts))
    page = visit(phone=True, opponent="straight")
    page.page.evaluate("play.setSpeed(4)")
    page.page.evaluate(HUNTER)
    page.wait_for("document.getElementById('over').open", 120)
    assert page.page.locator("#ratings tbody tr").count() == 6, "the newest"
    fits(page)
    assert page.page.evaluate(TOO_PALE) == []


def test_keys_alone_choose_fly_pause_and_choose_again(visit):
    page = visit(begins=False)
    keys = page.page.keyboard
    page.press("Escape", "Escape", "Escape")
    assert page.page.evaluate("element('menu').open"), "there is nothing behind it"
    assert page.page.evaluate("document.activeElement.id") == "begin"
    page.press("?")
    assert "turn gently" in page.page.inner_text("#keys")
    page.press("?")
    assert page.page.evaluate("element('menu').open && !element('help').open")
    for _ in range(8):
        if page.page.evaluate("document.activeElement.name") == "opponent":
            break
        keys.press("Shift+Tab")
    keys.type("str")
    for _ in range(8):
        if page.page.evaluate("document.activeElement.id") == "begin":
            break
        keys.press("Tab")
    keys.press("Enter")
    page.wait_for("play.fight !== null && play.fight.duration > 0.2")
    assert "straight" in page.page.inner_text("#title")
    keys.down("a")
    page.wait_for("play.fight.aircraft[0].rudder.at(-1) === 1")
    keys.up("a")
    page.press("p")
    assert page.page.inner_text("#outcome") == "paused"
    page.press("p", "Escape")
    assert page.page.evaluate("element('menu').open && document.activeElement.id === 'begin'")
    page.press("Escape")
    assert not page.page.evaluate("element('menu').open")
    page.press("Tab", "Tab")
    assert page.page.evaluate("document.activeElement.matches('button:focus-visible')")


def test_flying_straight_loses_against_the_league_policy(visit):
    page = visit(opponent="zoo:combat-league")
    page.page.evaluate("play.setSpeed(4)")
    page.wait_for("document.getElementById('over').open", 120)
    assert page.page.inner_text("#verdict") == "You are shot down"
    page.press("Enter")  # Again has the focus
    page.wait_for("play.fight.duration > 0.2 && !element('over').open && !play.isOver")


def test_fingers_steer_on_a_phone(visit):
    page = visit(phone=True, opponent="straight")
    assert page.page.is_visible("#fire")
    box = page.page.locator("#pad").bounding_box()
    page.page.touchscreen.tap(box["x"] + 5, box["y"] + 20)
    page.page.touchscreen.tap(*[box["x"] + box["width"] + 40, box["y"] + 40])
    page.wait_for("play.fight.missiles.length === 1")


def test_a_gamepad_steers_and_fires(visit):
    page = visit(opponent="straight")
    page.page.evaluate("""() => {
      const buttons = Array.from({ length: 16 }, () => ({ value: 0 }));
      window.pad = { connected: true, axes: [0, 0, 0, 0], buttons };
      navigator.getGamepads = () => [window.pad];
    }""")
    page.page.evaluate("window.pad.axes[0] = 0.75")
    page.wait_for("play.fight.aircraft[0].rudder.at(-1) === -0.75")
    page.page.evaluate("window.pad.axes[0] = 0")
    page.wait_for("play.fight.aircraft[0].rudder.at(-1) === 0")
    page.page.evaluate("window.pad.buttons[0].value = 1")
    page.wait_for("play.fight.missiles.length === 1")


def test_two_policies_fight_and_somebody_comments(visit):
    page = visit(opponent="crank", own="zoo:combat-scripts")
    page.page.evaluate("play.setSpeed(4)")
    page.wait_for("document.getElementById('over').open", 180)
    events = page.page.evaluate(
        "[...document.querySelectorAll('#feed li')].map((each) => each.textContent)"
    )
    assert any("fires at" in text for text in events)
    assert any("shoots" in text or "evades" in text for text in events)
    assert not page.page.is_visible("#ratings"), "nobody played"


def test_on_hard_only_what_the_radar_sees_is_drawn(visit):
    page = visit(opponent="straight", difficulty="hard")
    page.wait_for("play.fight.aircraft[1].hidden === false")
    page.page.evaluate("play.setSpeed(4)")
    page.page.keyboard.down("d")  # a circle: sooner or later the enemy is behind
    page.wait_for("play.fight.aircraft[1].hidden === true")
    page.wait_for("document.getElementById('range').textContent === 'no contact'")
    page.wait_for("document.getElementById('graph-title').textContent.includes('no contact')")
    page.wait_for("play.fight.aircraft[1].hidden === false")
