"""The index of a gallery in a real browser: it leads to its pages, draws curves and fits a phone."""

import pytest

from navrl.selfplay.payoff import Payoff
from navrl.view.gallery import Entry, Gallery, Page
from navrl.view.matrix import svg
from tests.browser.contrast import readable

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A gallery of two entries, one with a curve and a league of three."""
    payoff = Payoff(["a", "b", "c"])
    payoff.record("a", "b", 3, 0, 1)
    line = {"label": "ppo", "tone": 0, "mean": [0.1, 0.5, 0.9]}
    chart = {"title": "win", "unit": "share of episodes", "kind": "lines", "lines": [line]}
    replay = Page("win.html", "<!doctype html><title>a win</title>", "win", "Red wins after 12 s")
    gallery = Gallery(tmp_path_factory.mktemp("gallery"))
    gallery.add(
        Entry(
            "first", "combat", ["win 0.9"], [replay], chart | {"settled": 0}, [1, 2, 3], svg(payoff)
        )
    )
    gallery.add(Entry("<b>second</b>", "navigation", [], [replay]))
    return gallery.finish(title="Gallery", subtitle="two")


@pytest.mark.parametrize("phone", [False, True])
def test_every_entry_is_shown_within_the_width(show, index, phone):
    page = show(index, phone=phone).page
    assert page.locator(".entry h2").all_inner_texts() == ["first", "<b>second</b>"]
    assert page.locator(".entry path.mean[d^='M']").count() == 1
    # Each of three against three has a cell, and the scale eleven; the paper is one more.
    assert page.locator(".league svg rect").count() == 9 + 11 + 1
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert readable(page)


def test_keys_alone_lead_to_a_replay(show, index):
    page = show(index).page
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "A":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/first/win.html")
    assert page.title() == "a win"
