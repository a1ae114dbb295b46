"""Prioritised fictitious self-play by hand."""

import math

import pytest

from navrl.selfplay.matchmaking import pfsp_weights


def test_weights_by_hand():
    # (1 - 0.9)^2, (1 - 0.5)^2, (1 - 0.1)^2 = 0.01, 0.25, 0.81, together 1.07
    assert pfsp_weights([0.9, 0.5, 0.1]) == pytest.approx([0.01 / 1.07, 0.25 / 1.07, 0.81 / 1.07])


def test_who_is_always_beaten_is_not_drawn():
    assert pfsp_weights([1.0, 0.75, 0.5]) == pytest.approx([0.0, 0.2, 0.8])


@pytest.mark.parametrize(("power", "expected"), [(0.0, [0.5, 0.5]), (1.0, [0.25, 0.75])])
def test_power_sharpens(power, expected):
    assert pfsp_weights([0.75, 0.25], power=power) == pytest.approx(expected)


def test_everybody_beaten_is_everybody_alike():
    assert pfsp_weights([1.0] * 4) == [0.25] * 4


def test_a_nearly_perfect_learner_still_finds_its_hardest_opponent():
    # 1e-10 ** 40 is below the smallest float, its ratio to the other is not
    almost = 1.0 - 1e-10
    assert pfsp_weights([almost, 1.0, almost], power=40.0) == [0.5, 0.0, 0.5]


@pytest.mark.parametrize(
    ("scores", "power"), [([], 2.0), ([1.1], 2.0), ([-0.1], 2.0), ([math.nan], 2.0), ([0.5], -1)]
)
def test_impossible_arguments_are_refused(scores, power):
    with pytest.raises(ValueError, match="expected at least one score"):
        pfsp_weights(scores, power=power)
