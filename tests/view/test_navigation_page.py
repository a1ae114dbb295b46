"""The data of a page of navigation: what its scripts unpack is what was recorded."""

import itertools
import json
import math

import pytest
import torch

from navrl.view import navigation_page
from navrl.view.navigation_page import navigation_data, outcome, packed_ranges
from tests.view.trips import place, recorded, shipped_params, trip, velocity

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_FREE = math.inf


def summed(packed):
    """Unpack a list as the page does."""
    return list(itertools.accumulate(itertools.accumulate(packed)))


def unpacked(text, range_m):
    """Unpack ranges as the page does."""
    found, rest = [], iter(text)
    for letter in rest:
        if letter == ".":
            found += [_FREE] * _DIGITS.index(next(rest))
        else:
            found.append(_DIGITS.index(letter) * range_m / 63)
    return found


def data(count=3, chosen=0):
    return navigation_data(recorded(count), chosen, title="greedy in navigation", subtitle="seed 1")


def test_a_path_comes_back_to_the_centimetre():
    raw = data()["trips"][0]
    times_s = [0.001 * ms for ms in summed(raw["ms"])]
    assert times_s == pytest.approx([0.1 * knot for knot in range(91)])
    for axis, name in enumerate("xyz"):
        exact = [100.0 * place(time_s)[axis] for time_s in times_s]
        assert summed(raw[name]) == pytest.approx(exact, abs=0.51)
        exact = [100.0 * velocity(time_s)[axis] for time_s in times_s]
        assert summed(raw[f"v{name}"]) == pytest.approx(exact, abs=0.51)
    assert (raw["number"], raw["kind"], raw["world"]) == (5, "success", 0)
    shielded = [index for index, changed in enumerate(raw["changed"]) if changed]
    assert shielded == list(range(21, 31))
    assert set(raw["changed"]) == {0, 50}


def test_a_heading_that_passes_a_half_turn_does_not_jump():
    params = shipped_params()
    turned = trip(params)._replace(
        beam0_rad=[math.remainder(3.0 + 0.01 * knot, math.tau) for knot in range(91)]
    )
    raw = navigation_data(recorded(1)._replace(trips=[turned]), 0, title="", subtitle="")["trips"][
        0
    ]
    assert summed(raw["beam0"]) == [3000 + 10 * knot for knot in range(91)]


def test_ranges_come_back_in_sixty_fourths_ring_after_ring():
    ranges_m = torch.full((2, 70, 2), 4.0)
    ranges_m[0, :, 0] = torch.linspace(0.0, 3.99, 70)
    ranges_m[1, 5, 1] = 2.0
    text = packed_ranges(ranges_m, 4.0)
    found = unpacked(text, 4.0)
    assert len(found) == 280
    assert found[:70] == pytest.approx(ranges_m[0, :, 0].tolist(), abs=4.0 / 63 / 2 + 1e-6)
    assert found[70:215] == [_FREE] * 145
    assert found[215] == pytest.approx(2.0, abs=0.032)
    assert found[216:] == [_FREE] * 64
    assert len(text) < 90, "what is free costs next to nothing"


def test_obstacles_and_what_moves():
    page = data()
    pillar, wall, *_, floating = page["landscapes"][0]["boxes"]
    assert pillar == [300, 300, 40, 30, 0, 0, 500]
    assert wall[4] == round(1000 * math.pi / 6)
    assert floating[5:] == [280, 400]
    assert page["landscapes"][1]["boxes"][0][0] == 500
    assert page["landscapes"][0]["cylinders"] == [
        [-400, 200, 40, 0, 600],
        [500, -200, 50, 120, 200],
    ]
    assert page["trips"][0]["movers"][2] == [
        *(79, [0, 4000, 9000], [-300, 100, 100], [100, 100, 500], [250, 250, 250])
    ]
    widths = [2 * radius for radius in page["movers"]["radius"]]
    assert sorted(set(widths)) == [0.25, 0.5, 0.75, 1.0]
    assert page["movers"]["column"] == [0] * 40 + [1] * 40


def test_many_ranges_are_kept_of_the_chosen_episode_only(monkeypatch):
    monkeypatch.setattr(navigation_page, "MOST_SCANNED", 10_000)
    assert [raw["scans"] is not None for raw in data(3, chosen=1)["trips"]] == [False, True, False]


def test_sixty_four_episodes_are_a_few_megabytes():
    text = json.dumps(data(64), separators=(",", ":"))
    assert len(text) < 3_000_000


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "Goal reached after 9.0 s"),
        ({"ended_by": "timeout", "reached_s": 4.26}, "Goal reached after 4.3 s"),
        (
            {"ended_by": "collision_static", "reached_s": 4.0},
            "Goal reached after 4.0 s, then hit an obstacle after 9.0 s",
        ),
        (
            {"ended_by": "collision_moving", "reached_s": None, "goal": place(9.0)},
            "Hit by a moving obstacle after 9.0 s, 0.0 m from the goal",
        ),
        (
            {
                "ended_by": "outside",
                "reached_s": None,
                "goal": (*place(9.0)[:2], 3.5 + place(9.0)[2]),
            },
            "Left the space to fly in after 9.0 s, 3.5 m from the goal",
        ),
        (
            {"ended_by": "timeout", "reached_s": None, "goal": place(9.0)},
            "The time is up after 9.0 s, 0.0 m from the goal",
        ),
    ],
)
def test_what_became_of_a_trip(changes, sentence):
    assert outcome(trip(shipped_params())._replace(**changes)) == sentence
