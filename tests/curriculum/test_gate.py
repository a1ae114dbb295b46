"""Gates: when a lesson counts as learned, and when as forgotten."""

import math

import pytest

from navrl.curriculum.gate import Gate


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
    means = {"kill": 0.4, "kills": 0.8, "launches": 1.2, "win": 0.7}
    found = gate({"kill": 0.3}, {"launches_per_kills": 1.5}).seen(means)
    assert found == {"kill": 0.4, "launches_per_kills": pytest.approx(1.5)}
    nobody = gate({}, {"launches_per_kills": 1.5}).seen({"kills": 0.0, "launches": 0.0})
    assert nobody == {"launches_per_kills": math.inf}
