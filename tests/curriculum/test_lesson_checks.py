"""Impossible lessons are refused before a run begins."""

import math

import pytest

from navrl.curriculum.gate import Gate
from navrl.curriculum.lessons import Lesson
from tests.curriculum.fakes import Course, lesson


def changed(**changes):
    """A lesson with other arguments."""
    options = {
        "scenarios": {"near": 1.0},
        "opponents": {"a": 1.0},
        "reward": {"outcome": 1.0},
        "gate": Gate(at_least={"win": 0.9}, at_most={}, slack=0.1),
        "gate_opponents": None,
        "league": False,
        "at_most_frames": None,
    }
    return Lesson(**(options | changes))


def asking(at_least=None, at_most=None, slack=0.1):
    return changed(gate=Gate(at_least=at_least or {}, at_most=at_most or {}, slack=slack))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (changed(scenarios={"nera": 1.0}), r"\.scenarios names 'nera'; expected some of near, far"),
        (changed(opponents={"c": 1.0}), r"\.opponents names 'c'; expected some of a, b"),
        (
            changed(reward={"kills": 1.0}),
            r"\.reward names 'kills'; expected some of outcome, launch",
        ),
        (changed(scenarios={}), r"\.scenarios = {}; expected weights of 0 or more, not all 0"),
        (
            changed(opponents={"a": 0.0}),
            r"\.opponents = .* expected weights of 0 or more, not all 0",
        ),
        (changed(reward={"outcome": math.nan}), r"\.reward = .* expected finite numbers"),
        (
            changed(gate={"at_least": {}}),
            r"\.gate is a dict; expected _target_: navrl\.curriculum\.Gate",
        ),
        (changed(opponents=5), r"\.opponents = 5; expected numbers by name"),
        (
            changed(gate=Gate(at_least=None, at_most={}, slack=0.1)),
            r"\.gate\.at_least = None; expected numbers by name",
        ),
        ({"gate": None}, r" is a dict; expected _target_: navrl\.curriculum\.Lesson in it"),
        (
            asking({"wins": 0.5}),
            r"\.gate\.at_least names 'wins'; expected some of win, kill, worst_win",
        ),
        (asking({}, {"launches_per_hit": 1.0}), r"\.gate\.at_most names 'hit'"),
        (asking({"win": 1.01}), r"\.gate\.at_least\.win = 1\.01; expected a rate from 0 to 1"),
        (asking({"win": 0.9}, {"win": 0.8}), r"\.gate wants win of at least 0\.9 and at most 0\.8"),
        (asking({"win": 0.9}, slack=-0.1), r"\.gate\.slack = -0\.1; expected 0 or more"),
        (changed(at_most_frames=0), r"\.at_most_frames = 0; expected a whole number, 1 or more"),
    ],
)
def test_an_impossible_lesson_is_refused_at_the_start_wherever_it_stands(wrong, sentence):
    with pytest.raises(ValueError, match=rf"^curriculum\.lessons\.lesson1{sentence}") as refused:
        Course(lesson(0), wrong)
    assert "\n" not in str(refused.value)


def test_the_worst_of_a_few_episodes_is_refused():
    # Of the 100 episodes 30 meet b, and then 25.
    worst = Gate(at_least={"win": 0.9, "worst_win": 0.8}, at_most={}, slack=0.1)
    Course(changed(gate=worst, gate_opponents={"a": 0.7, "b": 0.3}))
    Course(changed(gate=worst, gate_opponents={"a": 5.0, "b": 0.0}))
    Course(
        changed(gate_opponents={"a": 100.0, "b": 1.0})
    )  # a mean of all does not ask who is worst
    with pytest.raises(ValueError, match="worst_win") as refused:
        Course(changed(gate=worst, gate_opponents={"a": 3.0, "b": 1.0}))
    place = "curriculum.lessons.lesson0.gate"
    assert str(refused.value) == (
        f"{place} has a bound on worst_win, but 25 of 100 episodes meet b; expected 30 or more; "
        f"set num_envs=120 or change {place}"
    )


@pytest.mark.parametrize("options", [{"check_every": 0}, {"check_every": -3}])
def test_a_curriculum_that_never_asks_is_refused(options):
    with pytest.raises(ValueError, match="change curriculum"):
        Course(lesson(0), **options)
    with pytest.raises(ValueError, match="with 0 lessons"):
        Course()
