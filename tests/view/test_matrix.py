"""The picture of a payoff matrix: valid, self-contained, readable, and saying what was counted."""

import re
from xml.etree import ElementTree

import pytest

from navrl.selfplay.payoff import Payoff
from navrl.view import matrix

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def payoff():
    """Two players with games, one without, and names that XML would stumble over."""
    payoff = Payoff(["latest", "<b>&'\"", "idle"])
    payoff.record("latest", "<b>&'\"", 6, 2, 2)
    return payoff


def linear(channel):
    """WCAG 2: light of a channel from 0 to 255."""
    c = channel / 255
    return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4


def luminance(shade):
    return sum(w * linear(c) for w, c in zip((0.2126, 0.7152, 0.0722), shade, strict=True))


def cells(payoff):
    """The texts of each cell, row by row."""
    root = ElementTree.fromstring(matrix.svg(payoff))
    return [[text.text for text in cell.iter(f"{SVG}text")] for cell in root.iter(f"{SVG}g")]


def test_cells_show_score_and_games(payoff):
    assert cells(payoff) == [["-"], ["70%", "10"], ["-"], ["30%", "10"], *[["-"]] * 5]


def test_labels_and_hints_are_the_names_unharmed(payoff):
    root = ElementTree.fromstring(matrix.svg(payoff))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert [texts.count(f"{n} {name}") for n, name in enumerate(payoff.players, 1)] == [2, 2, 2]
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert titles[:2] == [
        "Score of row against column: a draw counts half",
        "latest against <b>&'\": 6 won, 2 drawn, 2 lost",
    ]
    assert titles[2] == "<b>&'\" against latest: 2 won, 2 drawn, 6 lost"


def test_nothing_is_fetched_and_nothing_runs(payoff):
    text = matrix.svg(payoff).replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"http|href|url\(|<script|<style|<image|<foreignObject", text)


def test_ink_is_readable_on_every_shade():
    for percent in range(101):
        shade = matrix.colour(percent / 100)
        light = {"#000000": 0.0, "#ffffff": 1.0}[matrix.ink(shade)]
        brighter, darker = sorted((light, luminance(shade)), reverse=True)
        assert (brighter + 0.05) / (darker + 0.05) >= 4.5
