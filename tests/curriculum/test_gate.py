"""Gates: when a lesson counts as learned, and when as forgotten."""

import math

import pytest

from navrl.curriculum.gate import Gate, means


def gate(at_least=None, at_most=None, slack=0.1):
    return Gate(at_least=at_least or {}, at_most=at_most or {}, slack=slack)


@pytest.mark.parametrize(
    ("kill", "launches", "passed"),
    [
        (0.95, 1.5, True),  # to the letter
        (1.0, 1.0, True),
        (0.949, 1.0, False),
        (0.95, 1.501, False),
        (0.0, 0.0, False),
    ],
)
def test_every_demand_must_be_met(kill, launches, passed):
    first = gate({"kill": 0.95}, {"launches": 1.5})
    assert first.passed({"kill": kill, "launches": launches}) is passed


def test_a_gate_without_demands_is_never_passed_and_never_forgotten():
    assert not gate().passed({})
    assert not gate().forgotten({})


@pytest.mark.parametrize(("win", "lost"), [(0.9, False), (0.79, False), (0.74, True)])
def test_an_old_lesson_may_slip_by_the_slack(win, lost):
    assert gate({"win": 0.9}, slack=0.15).forgotten({"win": win}) is lost


def test_what_was_to_be_low_is_no_reason_to_go_back():
    # Sparing missiles is taught once; later lessons may need more of them.
    frugal = gate({"kill": 0.5}, {"launches": 1.5})
    assert not frugal.forgotten({"kill": 0.5, "launches": 6.0})
    assert frugal.forgotten({"kill": 0.39, "launches": 1.0})


def test_it_sees_means_and_ratios_of_means():
    whole = {"kill": 0.4, "kills": 0.8, "launches": 1.2, "win": 0.7}
    found = gate({"kill": 0.3}, {"launches_per_kills": 1.5}).values(whole)
    assert found == {"kill": 0.4, "launches_per_kills": pytest.approx(1.5)}
    nobody = gate({}, {"launches_per_kills": 1.5}).values({"kills": 0.0, "launches": 0.0})
    assert nobody == {"launches_per_kills": math.inf}


def test_the_worst_opponent_is_the_one_with_the_lowest_mean():
    ends = {
        "_opponent": [0.0, 2.0, 2.0, 1.0],
        "win": [1.0, 0.0, 1.0, 1.0],
        "kills": [2.0, 0.0, 1.0, 1.0],
    }
    found = means(ends, ("win",), ("ace", "bob", "cid", "idle"))
    each = {"win_against_ace": 1.0, "win_against_bob": 1.0, "win_against_cid": 0.5}
    assert found == {"_opponent": 1.25, "win": 0.75, "kills": 1.0, "worst_win": 0.5, **each}


def test_it_describes_its_bounds_and_the_values():
    demanding = gate({"worst_win": 0.9}, {"launches_per_kills": 1.5})
    seen = {"worst_win": 0.25, "win_against_ace": 1.0, "win_against_bob": 0.25}
    assert demanding.describe({**seen, "launches": 1.2, "kills": 0.8}) == (
        "worst_win 0.25 (0.9 or more: ace 1, bob 0.25), launches_per_kills 1.5 (1.5 or less)"
    )
    none = gate({}, {"launches_per_kills": 1.5}).describe({**seen, "launches": 1.0, "kills": 0.0})
    assert none == "launches_per_kills no kills (1.5 or less)"
    assert gate({"win": 0.5}).describe({"win": 0.125}) == "win 0.125 (0.5 or more)"
