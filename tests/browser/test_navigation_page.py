"""The page of drone navigation in a real browser: one trip in full, and all of them in miniature."""

import math

import pytest

from navrl.view.navigation_page import navigation_page
from tests.view.trips import RADIUS_M, TURN_RADPS, place, recorded, shipped_params

pytestmark = pytest.mark.browser

CANVASES = ("top-view", "charts-view")
TRIP = "player.scene.trip"


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """Pages on disk: twelve episodes, one, and one in a world without sides or shield."""
    folder = tmp_path_factory.mktemp("navigation")
    open_sky = shipped_params("side_limit_m=null", "lidar.rings=1", "lidar.ring_high_deg=-10")
    for name, story in {
        "twelve": recorded(12),
        "one": recorded(1),
        "open": recorded(2, shield=False, params=open_sky),
    }.items():
        text = navigation_page(story, 0, title=name, subtitle="seed 1")
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def fly(show, flown):
    """fly(name, phone=False) -> an opened page."""
    return lambda name, *, phone=False: show(flown / f"{name}.html", phone=phone)


@pytest.mark.parametrize("name", ["twelve", "one", "open"])
@pytest.mark.parametrize("phone", [False, True])
def test_map_and_charts_show_something(fly, name, phone):
    replay = fly(name, phone=phone)
    for time_s in (0.0, 2.5, 99.0):
        replay.seek(time_s)
        for canvas in CANVASES:
            assert replay.pixels(canvas)[0] > 50, f"{canvas} at {time_s} s"


def test_between_knots_the_drone_is_on_its_circle(fly):
    replay = fly("twelve")
    for time_s in (0.03, 1.234, 5.55, 8.97):
        x, y, z, distance = replay.page.evaluate(
            f"(({{ x, y, z, distance }}) => [x, y, z, distance])({TRIP}.at({time_s}))"
        )
        # Knots are stored in whole centimetres; the cubic between them adds nothing to that.
        assert (x, y, z) == pytest.approx(place(time_s), abs=0.012)
        assert distance == pytest.approx(math.dist(place(time_s), place(9.2)), abs=0.02)


def test_the_lidar_is_what_was_recorded(fly):
    replay = fly("twelve")
    beams = f"beamEnds({TRIP}, {TRIP}.at(3), %s).map((e) => [e.x, e.y, e.kind])"
    x, y, _ = place(3.0)
    for ring, elevation_deg in enumerate((-10.0, 0.0, 10.0, 20.0)):
        for beam, (end_x, end_y, kind) in enumerate(replay.page.evaluate(beams % ring)):
            slant_m = 4.0 if beam % 3 == 2 else 1.0 + 0.05 * beam + 0.1 * ring
            across_m = slant_m * math.cos(math.radians(elevation_deg))
            angle = 3.0 * TURN_RADPS + math.tau * beam / 36
            assert kind == ("free" if beam % 3 == 2 else "hit")
            assert end_x == pytest.approx(x + across_m * math.cos(angle), abs=0.05)
            assert end_y == pytest.approx(y + across_m * math.sin(angle), abs=0.05)
    nearest = replay.page.evaluate(beams % "'nearest'")
    lowest = math.cos(math.radians(10.0)) * 1.0  # ring 0 is the nearest by construction
    assert math.dist(nearest[0][:2], (x, y)) == pytest.approx(lowest, abs=0.05)
    assert replay.page.evaluate(beams % "'none'") == []


def test_only_near_obstacles_are_perceived(fly):
    replay = fly("twelve")
    found = replay.page.evaluate(
        f"{TRIP}.moversAt({TRIP}.at(2)).map((m) => [m.index, m.away, m.near, m.level])"
    )
    x, y, _ = place(2.0)
    expected = {2: (4.0 / 3.0, 5.0), 30: (2.0, 9.0 - 4.0 / 3.0), 79: (-1.0, 1.0)}
    assert [index for index, *_ in found] == sorted(
        expected, key=lambda index: math.dist(expected[index], (x, y))
    )
    for index, away, near, level in found:
        assert away == pytest.approx(math.dist(expected[index], (x, y)), abs=0.02)
        assert near == (away <= 4.0)
        assert level == (index != 30), "3.9 m is above the drone, and a column always level"


def test_the_keyboard(fly):
    replay = fly("twelve")
    replay.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert replay.clock_s() == 1.0
    replay.press("]")
    assert replay.clock_s() == 2.0, "the shield begins"
    replay.press("]")
    assert replay.clock_s() == 3.1, "the least clearance: 1 + cos(t) / 2"
    replay.press("]")
    assert replay.clock_s() == 9.0, "the goal"
    replay.press("Home", "l")
    assert replay.page.inner_text("#lidar") == "Lidar: ring \u221210\u00b0"
    replay.press("4")
    assert replay.page.inner_text("#lidar") == "Lidar: ring +20\u00b0"
    replay.press("l")
    assert replay.page.inner_text("#lidar") == "Lidar: off"
    replay.press("0")
    assert replay.page.inner_text("#lidar") == "Lidar: nearest"
    replay.press("n", "n", "p")
    assert "episode 6" in replay.page.inner_text("#subtitle")
    replay.press("p", "p")
    assert "episode 16" in replay.page.inner_text("#subtitle"), "around the corner"
    replay.press("?")
    assert replay.page.is_visible("#help")


def test_the_map_follows_shows_the_route_and_can_be_moved(fly):
    replay = fly("twelve")
    replay.seek(6.0)
    x, y = replay.page.evaluate(
        f"((m, now) => [m.plane.toX(now.x) / m.plane.width, m.plane.toY(now.y) / m.plane.height])"
        f"(player.scene.map, {TRIP}.at(6))"
    )
    assert 0.3 < x < 0.7, "the drone is in the middle"
    assert 0.3 < y < 0.7
    replay.press("f")  # from (0, 0) past the eastern end of the circle to the goal
    replay.wait_for(f"Math.abs(player.scene.map.plane.camera.x - {RADIUS_M / 2}) < 0.05")
    assert replay.page.get_attribute("#route", "aria-pressed") == "true"
    replay.page.locator("#top-view").hover()
    replay.page.mouse.wheel(0, -300)
    replay.settle()
    assert replay.page.evaluate("player.scene.map.plane.byHand")
    replay.press("f")
    assert not replay.page.evaluate("player.scene.map.plane.byHand")
    assert replay.page.get_attribute("#route", "aria-pressed") == "false"


def test_a_click_on_a_chart_goes_there(fly):
    replay = fly("twelve")
    box = replay.page.locator("#charts-view").bounding_box()
    replay.page.mouse.click(box["x"] + 40 + (box["width"] - 54) / 2, box["y"] + 50)
    replay.settle()
    assert replay.clock_s() == pytest.approx(4.5, abs=0.11)


def test_the_shield_is_marked(fly):
    replay = fly("twelve")
    assert replay.page.locator(".band").count() == 1
    mark = replay.page.locator(".mark.shield")
    mark.hover()
    assert replay.page.inner_text("#tooltip") == "0:02.0  the shield changes the command for 1.0 s"
    replay.seek(2.5)
    assert "shield: 0.5 m/s changed" in replay.page.inner_text("#situation")
    replay.seek(4.0)
    assert "shield" not in replay.page.inner_text("#situation")
    assert fly("open").page.locator(".band, .mark.shield").count() == 0


# ---- all of them ------------------------------------------------------------------------------------


@pytest.mark.parametrize("phone", [False, True])
def test_all_episodes_in_miniature(fly, phone):
    replay = fly("twelve", phone=phone)
    replay.page.click("#all")
    replay.settle()
    assert replay.page.is_hidden("#top")
    assert replay.pixels("gallery-view")[0] > 50
    tally = replay.page.inner_text("#gallery-tally")
    assert "3 reached the goal" in tally
    assert "2 ran out of time" in tally
    assert replay.page.inner_text("#subtitle") == "seed 1, episodes 5 to 16"
    assert replay.clock_s() == 0.0
    replay.seek(99.0)
    assert replay.clock_s() == 9.0, "the longest"
    cells = replay.page.evaluate(
        """player.scene.trips.map((_, index) => {
          const { left, top, size } = player.scene.gallery.pictureOf(index);
          const side = Math.floor(size * devicePixelRatio);
          const pen = new OffscreenCanvas(side, side).getContext("2d");
          const corner = [left, top].map((place) => -place * devicePixelRatio);
          pen.drawImage(element("gallery-view"), ...corner);
          const { data } = pen.getImageData(0, 0, side, side);
          return new Set(new Uint32Array(data.buffer)).size;
        })"""
    )
    assert len(cells) == 12
    assert min(cells) > 20, "no picture is blank"


def test_a_click_opens_the_episode(fly):
    replay = fly("twelve")
    replay.press("a")
    x, y, size = replay.page.evaluate(
        "(({ left, top, size }) => [left, top, size])(player.scene.gallery.pictureOf(6))"
    )
    place_of = {"x": x + size / 2, "y": y + size / 2}
    replay.page.locator("#gallery-view").hover(position=place_of)
    replay.settle()
    hint = "Episode 11: hit an obstacle after 9.0 s"
    assert replay.page.inner_text("#gallery-hint").startswith(hint)
    replay.page.locator("#gallery-view").click(position=place_of)
    replay.settle()
    assert replay.page.is_visible("#top")
    assert replay.page.inner_text("#subtitle") == "seed 1, episode 11"
    assert replay.page.inner_text("#outcome").startswith("Hit an obstacle after 9.0 s")
    replay.page.locator(".pip").nth(1).click()
    replay.settle()
    assert replay.page.inner_text("#subtitle") == "seed 1, episode 6"
    assert replay.page.locator('.pip[aria-current="true"]').count() == 1


def test_one_episode_has_no_gallery(fly):
    replay = fly("one")
    assert replay.page.is_hidden("#all")
    replay.press("a")
    assert replay.page.is_visible("#top")
    assert replay.page.locator(".pip").count() == 0
