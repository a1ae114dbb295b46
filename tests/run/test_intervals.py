"""Intervals against numbers worked out by hand or taken from printed tables."""

import math

import pytest
import torch

from navrl.run.intervals import mean_interval, t_quantile, wilson


def test_wilson_of_eight_in_ten_by_hand():
    # z^2 = 3.8416; centre = (0.8 + 0.19208) / 1.38416 = 0.71674
    # half = 1.96 / 1.38416 * sqrt(0.016 + 0.009604) = 0.22658
    found = wilson(8, 10)
    assert found.mean == 0.8
    assert found.low == pytest.approx(0.4902, abs=5e-5)
    assert found.high == pytest.approx(0.9433, abs=5e-5)
    assert found.n == 10
    assert (found.high - found.low) / 2.0 == pytest.approx(0.22658, abs=5e-6)


def test_wilson_at_the_ends_stays_inside_the_unit_interval():
    # all failures: high = z^2 / (n + z^2) = 3.8416 / 13.8416
    none, every = wilson(0, 10), wilson(10, 10)
    assert (none.low, every.high) == (0.0, 1.0)
    assert none.high == pytest.approx(3.8416 / 13.8416)
    assert every.low == pytest.approx(10.0 / 13.8416)


def test_wilson_without_samples_knows_nothing():
    found = wilson(0, 0)
    assert math.isnan(found.mean)
    assert (found.low, found.high, found.n) == (0.0, 1.0, 0)


@pytest.mark.parametrize(("successes", "n"), [(-1, 10), (11, 10), (0, -1)])
def test_wilson_refuses_impossible_counts(successes, n):
    with pytest.raises(ValueError, match="must lie between 0 and n"):
        wilson(successes, n)


@pytest.mark.parametrize(
    ("degrees", "quantile"),  # the printed table of Student's t for two-sided 95 %
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (120, 1.980)],
)
def test_t_quantile_is_the_printed_table(degrees, quantile):
    assert t_quantile(0.975, degrees) == pytest.approx(quantile, abs=5e-4)


def test_mean_interval_by_hand():
    # 1..5: mean 3, s = sqrt(2.5), half = 2.776445 * sqrt(2.5 / 5) = 1.963243
    found = mean_interval(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert found.mean == 3.0
    assert (found.high - found.low) / 2.0 == pytest.approx(1.963243, abs=1e-6)
    assert found.low == pytest.approx(3.0 - 1.963243, abs=1e-6)
    assert found.n == 5


def test_mean_interval_needs_two_samples():
    assert mean_interval([4.0]) == (4.0, -math.inf, math.inf, 1)
    assert math.isnan(mean_interval([]).mean)


def test_confidence_must_be_a_share():
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_interval([1.0, 2.0], confidence=95)
