"""The page of any world in a real browser: its picture, its numbers, both themes."""

import math

import pytest

from navrl.view.world_page import world_page
from tests.browser.contrast import readable
from tests.view.worlds import RADIUS, STEPS, episode, place

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """Pages on disk: with a picture, and with numbers alone."""
    folder = tmp_path_factory.mktemp("worlds")
    for name, pictured in {"picture": True, "numbers": False}.items():
        text = world_page(
            episode(pictured=pictured), title=name, subtitle="seed 1", outcome="Success"
        )
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def watch(show, worlds):
    """watch(name, phone=False) -> an opened page."""
    return lambda name, *, phone=False: show(worlds / f"{name}.html", phone=phone)


@pytest.mark.parametrize("phone", [False, True])
def test_both_themes_show_something_at_every_size(watch, phone):
    replay = watch("picture", phone=phone)
    colours = []
    for theme in ("dark", "light"):
        replay.page.emulate_media(color_scheme=theme)
        for step in (0, STEPS / 2, STEPS):
            replay.seek(step)
            for canvas in ("top-view", "charts-view"):
                assert replay.pixels(canvas)[0] > 50, f"{canvas} at {step}, {theme}"
        colours.append(replay.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(12, 17, 23)", "rgb(246, 248, 250)"]
    assert replay.page.evaluate("THEME.text") == "#17212c"
    page = replay.page
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert readable(page)
    assert replay.page.inner_text("#signs") == "goal"


def test_shapes_are_where_they_were_recorded(watch):
    replay = watch("picture")
    at = "((now) => [now.points[0].x, now.points[0].y, now.visible, now.colour])(scene.shapes[%d].at(0, %s))"
    for step in (0, 7, 23):
        x, y, visible, colour = replay.page.evaluate(at % (4, step))
        assert (x, y) == pytest.approx(place(step), abs=1e-4)
        assert visible
        assert colour == replay.page.evaluate("toneOf(3)")
    x, y, *_ = replay.page.evaluate(at % (4, 7.5))
    assert math.hypot(x, y) == pytest.approx(RADIUS * math.cos(math.pi / STEPS), abs=1e-3), (
        "halfway on a chord"
    )
    assert replay.page.evaluate(at % (3, STEPS / 2 - 1))[2]
    assert not replay.page.evaluate(at % (3, STEPS / 2))[2]
    box = replay.page.evaluate("player.scene.picture.box")
    assert (box["left"], box["right"]) == pytest.approx((-4.0, 4.0), abs=1e-4)


def test_steps_are_the_clock(watch):
    replay = watch("picture")
    clock = lambda: replay.page.inner_text("#clock")  # noqa: E731
    replay.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert clock() == f"1 / {STEPS}"
    replay.press("]")
    assert clock() == f"{STEPS // 2} / {STEPS}", "the success"
    replay.press("End")
    assert clock() == f"{STEPS} / {STEPS}"
    assert replay.page.is_visible("#banner")
    replay.press("Home", " ")
    replay.wait_for(f"player.time >= {STEPS / 8}")
    assert replay.page.evaluate("player.speed") == 5


def test_the_picture_moves_and_comes_back(watch):
    replay = watch("picture")
    replay.page.locator("#top-view").hover()
    replay.page.mouse.wheel(0, -300)
    replay.settle()
    assert replay.page.evaluate("scene.picture.plane.byHand")
    replay.press("f")
    assert not replay.page.evaluate("scene.picture.plane.byHand")
    box = replay.page.locator("#charts-view").bounding_box()
    replay.page.mouse.click(box["x"] + 40 + (box["width"] - 54) / 2, box["y"] + 50)
    replay.settle()
    assert replay.page.evaluate("player.time") == STEPS / 2, "a click on a chart goes there"


@pytest.mark.parametrize("phone", [False, True])
def test_numbers_alone(watch, phone):
    replay = watch("numbers", phone=phone)
    replay.seek(10)
    assert replay.page.is_hidden("#top")
    assert replay.pixels("charts-view")[0] > 50
    words = replay.page.evaluate("scene.curves.map((c) => rowAt(c, 10).words.map((w) => w.text))")
    assert words[0] == ["5"]
    assert words[1] == ["27.5"]
    assert words[2] == [f"0 {math.sin(2):.3f}", f"1 {-math.sin(2):.3f}", "the first 2 of 12"]
