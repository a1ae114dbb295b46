"""The replay page in a real browser: it draws, moves, turns, listens to the keyboard, fits a phone."""

import pytest

from navrl.view.combat_page import combat_page
from navrl.view.combat_recording import recording
from navrl.view.spacetime import spacetime_graph
from tests.browser.conftest import DESKTOP, Opened
from tests.view.fights import duel

pytestmark = pytest.mark.browser

CANVASES = ("top-view", "graph-view")


@pytest.mark.parametrize("name", ["duel", "brawl"])
@pytest.mark.parametrize("phone", [False, True])
def test_both_views_show_something(show, name, phone):
    replay = show(name, phone=phone)
    for time_s in (0.0, 20.0, 36.5, 99.0):
        replay.seek(time_s)
        for canvas in CANVASES:
            assert replay.pixels(canvas)[0] > 50, f"{canvas} at {time_s} s"


def test_the_slider_moves_the_clock_and_the_pictures(show):
    replay = show("duel")
    assert replay.clock_s() == 0.0
    before = [replay.pixels(canvas) for canvas in CANVASES]
    replay.seek(12.3)
    assert replay.clock_s() == 12.3
    after = [replay.pixels(canvas) for canvas in CANVASES]
    assert all(a != b for a, b in zip(before, after, strict=True))
    replay.seek(0.0)
    assert [replay.pixels(canvas) for canvas in CANVASES] == before, (
        "the same instant, the same picture"
    )


def test_playing_advances_and_stops_at_the_end(show):
    replay = show("duel")
    replay.page.select_option("#speed", "16")
    replay.page.click("#play")
    replay.wait_for("player.time > 3")
    replay.page.click("#play")
    halted = replay.clock_s()
    replay.page.wait_for_timeout(150)
    assert replay.clock_s() == halted
    replay.seek(40.0)
    replay.press("Space")
    replay.wait_for("!player.playing && player.time === player.scene.duration")
    assert replay.page.is_visible("#banner")
    assert "wins" in replay.page.inner_text("#banner")
    replay.press("Space")
    replay.wait_for("player.playing && player.time < 30")  # from the start again


def test_the_keyboard(show):
    replay = show("duel")
    replay.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert replay.clock_s() == 1.0
    replay.press("Shift+ArrowRight")
    assert replay.clock_s() == 6.0
    replay.press("]")
    assert replay.clock_s() == 27.0, "the first launch"
    replay.press("]")
    assert replay.clock_s() == 28.0, "the second one"
    replay.press("[")
    assert replay.clock_s() == 27.0
    replay.press("End")
    assert replay.clock_s() == 41.5
    replay.press("Home")
    assert replay.clock_s() == 0.0
    replay.press("+", "+", "-")
    assert replay.page.input_value("#speed") == "8"
    replay.press("2")
    assert "Blue under the reach of Red" in replay.page.inner_text("#graph-title")
    replay.press("g")
    assert "Red under the reach of Blue" in replay.page.inner_text("#graph-title")
    replay.press("?")
    assert replay.page.is_visible("#help")
    replay.press("Escape")
    assert not replay.page.is_visible("#help")


def test_a_clicked_button_leaves_the_space_bar_to_the_player(show):
    replay = show("duel")
    replay.page.click("#fit")
    replay.press("Space")
    assert replay.page.evaluate("player.playing")


def test_events_are_marked_named_and_lead_there(show):
    replay = show("duel")
    marks = replay.page.locator(".mark")
    assert marks.count() == 4
    marks.nth(0).hover()
    assert replay.page.inner_text("#tooltip") == "0:27.0  Red fires at Blue"
    marks.nth(1).click()
    replay.settle()
    assert replay.clock_s() == 28.0
    colours = {marks.nth(i).evaluate("(mark) => getComputedStyle(mark).color") for i in range(4)}
    assert len(colours) == 2, "one for each side"


def dragged(replay, canvas, dx, dy):
    box = replay.page.locator(f"#{canvas}").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    replay.page.mouse.move(x, y)
    replay.page.mouse.down()
    replay.page.mouse.move(x + dx / 2, y + dy / 2)
    replay.page.mouse.move(x + dx, y + dy)
    replay.page.mouse.up()
    replay.settle()


def test_the_graph_turns_zooms_and_turns_back(show):
    replay = show("duel")
    replay.seek(34.0)
    pictures = [replay.pixels("graph-view")]
    dragged(replay, "graph-view", 90, 40)
    pictures.append(replay.pixels("graph-view"))
    replay.press("q")
    pictures.append(replay.pixels("graph-view"))
    replay.page.locator("#graph-view").hover()
    replay.page.mouse.wheel(0, -300)
    replay.settle()
    pictures.append(replay.pixels("graph-view"))
    assert len(set(pictures)) == 4
    replay.page.click("#graph-reset")
    replay.settle()
    assert replay.pixels("graph-view") == pictures[0]


def test_the_map_moves_and_fits_again(show):
    replay = show("duel")
    replay.seek(34.0)
    fitted = replay.pixels("top-view")
    dragged(replay, "top-view", 120, -60)
    assert replay.pixels("top-view") != fitted
    scale = "player.scene.map.plane.scale"
    before = replay.page.evaluate(scale)
    replay.page.mouse.wheel(0, -200)
    replay.settle()
    assert replay.page.evaluate(scale) > 1.2 * before
    replay.page.click("#fit")
    replay.wait_for(f"Math.abs({scale} / {before} - 1) < 0.02")
    replay.press("r")
    assert replay.page.get_attribute("#reach", "aria-pressed") == "true"


def test_an_aircraft_is_selected_by_touching_it(show):
    replay = show("brawl")
    replay.seek(30.0)
    x, y = replay.page.evaluate(
        "(() => { const m = player.scene.map, c = m.now.aircraft[6];"
        " return [m.plane.toX(c.x), m.plane.toY(c.y)]; })()"
    )
    replay.page.locator("#top-view").click(position={"x": x + 3, "y": y - 3})
    replay.settle()
    assert replay.page.inner_text("#whose") == "Blue 3"
    replay.page.locator("#roster tbody tr").nth(1).click()
    replay.settle()
    assert replay.page.inner_text("#whose") == "Red 2"
    assert replay.page.locator("#roster tbody tr").count() == 8


def test_the_page_says_who_flies_which_side(show):
    replay = show("duel")
    sides = replay.page.locator("#sides span")
    assert sides.all_inner_texts() == ["Red: ace", "Blue: bob"]
    colours = [sides.nth(i).evaluate("(e) => getComputedStyle(e).color") for i in range(2)]
    rows = replay.page.locator("#roster td.name")
    assert colours == [rows.nth(i).evaluate("(e) => getComputedStyle(e).color") for i in range(2)]


def test_the_dead_are_skipped_and_show_when_they_died(show):
    replay = show("duel")
    replay.press("End")
    dead = replay.page.evaluate("player.scene.fight.aircraft.findIndex((c) => c.died !== null)")
    replay.page.locator("#roster tbody tr").nth(dead).click()
    replay.settle()
    assert "was shot down at 0:41.5" in replay.page.inner_text("#situation")
    living = {"Red": "Blue", "Blue": "Red"}[replay.page.inner_text("#whose")]
    replay.press("g", "g")
    assert replay.page.inner_text("#whose") == living


def test_bodies_move_smoothly_between_decisions(show):
    replay = show("duel")
    speeds = replay.page.evaluate(
        """() => {
          const { track } = player.scene.fight.aircraft[0];
          const found = [];
          for (let t = 5; t < 25; t += 0.05) {
            const [a, b] = [track.at(t), track.at(t + 0.05)];
            found.push(Math.hypot(b.x - a.x, b.y - a.y) / 0.05 / a.speed);
          }
          return [Math.min(...found), Math.max(...found)];
        }"""
    )
    assert speeds == [pytest.approx(1.0, abs=0.02)] * 2, "no jumps and no stops"


@pytest.mark.parametrize("name", ["duel", "brawl"])
def test_a_phone_shows_everything_and_scrolls_one_way_only(show, name):
    replay = show(name, phone=True)
    replay.seek(34.0)
    width, scroll_width = replay.page.evaluate(
        "[document.documentElement.clientWidth, document.documentElement.scrollWidth]"
    )
    assert scroll_width <= width == 390
    for part in (*CANVASES, "play", "scrub", "clock", "speed"):
        box = replay.page.locator(f"#{part}").bounding_box()
        assert box["x"] >= 0, part
        assert box["x"] + box["width"] <= 390, part
        assert 0 <= box["y"] < box["y"] + box["height"] <= 844, f"{part} is on the first screen"
    top, graph = (replay.page.locator(f"#{part}").bounding_box() for part in CANVASES)
    assert top["y"] + top["height"] <= graph["y"], "one below the other"
    assert min(top["height"], graph["height"]) >= 240


@pytest.mark.parametrize("name", ["duel", "brawl"])
def test_nothing_lies_beside_the_frame_of_another_page_on_a_phone(show, name):
    replay = show(name, phone=True)
    replay.page.set_viewport_size({"width": 340, "height": 658})
    replay.seek(99.0)
    page = replay.page
    assert page.evaluate("[window.innerWidth, document.documentElement.scrollWidth]") == [340, 340]
    for part in ("fit", "graph-reset", "help-button", "scrub"):
        box = page.locator(f"#{part}").bounding_box()
        assert box["x"] >= 0, part
        assert box["x"] + box["width"] <= 340, part


def test_an_address_with_play_plays_from_the_start_again_and_again(chromium, pages):
    for motion, plays in (("no-preference", True), ("reduce", False)):
        address = f"{(pages / 'duel.html').as_uri()}#play"
        replay = Opened(chromium, address, {**DESKTOP, "reduced_motion": motion})
        if not plays:
            replay.page.wait_for_timeout(300)
        else:
            replay.wait_for("player.playing && player.time > 0.5")
            replay.press("End", "Space")
            replay.seek(30.0)
            replay.page.evaluate("window.location.replace('#play=2')")
            replay.wait_for("player.playing && player.time > 0.5 && player.time < 20")
        assert replay.page.evaluate("player.time > 0") == plays
        replay.context.close()
        assert replay.problems == []


def test_text_from_outside_stays_text(show, tmp_path):
    evil = "</script><img src=x onerror=document.title='taken'><b id=taken>"
    params, states, _ = duel()
    text = combat_page(
        recording(params, states), spacetime_graph, title=evil, subtitle=evil, pilots=(evil, evil)
    )
    (tmp_path / "evil.html").write_text(text, encoding="utf-8")
    replay = show(tmp_path / "evil.html")
    assert replay.page.inner_text("#title") == evil
    assert replay.page.title() == evil
    assert replay.page.locator("#taken, img").count() == 0
