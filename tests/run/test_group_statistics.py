"""Statistics of groups of runs against their definitions, written out slowly, and against known truths."""

import itertools
import math
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm, t, trim_mean, ttest_ind

from navrl.run.group_statistics import (
    bootstrap,
    difference_of_means,
    expanded_tail,
    improvement,
    interquartile_mean,
    probability_of_improvement,
)


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (4, 1), (5, 3), (8, 2), (10, 7)])
def test_the_interquartile_mean_is_scipys_trimmed_mean_of_all_scores(shape):
    scores = np.random.default_rng(0).normal(size=shape)
    expected = trim_mean(scores, proportiontocut=0.25, axis=None)
    assert interquartile_mean(scores) == pytest.approx(expected, rel=1e-12)


def test_the_interquartile_mean_by_hand():
    scores = np.array([[9.0, 1.0], [2.0, 100.0], [3.0, 4.0], [-50.0, 5.0]])
    assert interquartile_mean(scores) == (2.0 + 3.0 + 4.0 + 5.0) / 4


def test_the_probability_of_improvement_by_hand():
    first, second = np.array([[3.0], [1.0]]), np.array([[2.0], [1.0], [0.0]])
    # 3 is above all three; 1 is below 2, equal to 1 and above 0
    assert probability_of_improvement(first, second) == pytest.approx((3 + 0 + 0.5 + 1) / 6)
    assert probability_of_improvement(first, first) == 0.5


def test_the_probability_of_improvement_is_the_mean_over_tasks_of_mann_and_whitneys_u():
    rng = np.random.default_rng(1)
    first, second = (
        rng.integers(0, 6, (5, 4)).astype(float),
        rng.integers(0, 6, (7, 4)).astype(float),
    )
    expected = fmean(
        mannwhitneyu(first[:, task], second[:, task], alternative="greater").statistic / (5 * 7)
        for task in range(4)
    )
    assert probability_of_improvement(first, second) == pytest.approx(expected, rel=1e-12)


def test_the_interval_is_that_of_all_samples_that_can_be_drawn():
    """Five runs of one task: 5^5 samples, all as probable."""
    scores = np.array([[0.0], [1.0], [5.0], [7.0], [20.0]])
    samples = np.array(list(itertools.product(range(5), repeat=5)))
    every = trim_mean(scores[samples, 0], 0.25, axis=1)
    tail = norm.cdf(-math.sqrt(5 / 4) * t.ppf(0.975, 4))  # by Student's t and the sample deviation
    found = bootstrap(interquartile_mean, scores, repetitions=50_000)
    assert found.n == 5
    low, high = (np.quantile(every, end, method="inverted_cdf") for end in (tail, 1 - tail))
    assert found.low == pytest.approx(low, abs=0.4)
    assert found.high == pytest.approx(high, abs=0.7)


def test_the_tails_of_a_bootstrap_are_longer_for_few_runs_only():
    for runs in (2, 5, 30):
        expected = norm.cdf(-math.sqrt(runs / (runs - 1)) * t.ppf(0.975, runs - 1))
        assert expanded_tail(runs) == pytest.approx(expected, rel=1e-6)
    assert expanded_tail(10_000) == pytest.approx(0.025, rel=1e-3)


@pytest.mark.parametrize(("apart", "share"), [(True, 1 / 16), (False, 1 / 4)])
def test_tasks_are_drawn_apart_or_whole_runs(apart, share):
    """Two runs in two tasks, 0 or 1 in both: the mean is 1 if the second run is drawn every time."""
    scores = np.array([[0.0, 0.0], [1.0, 1.0]])
    seen = []

    def mean(sample):
        found = sample.mean(axis=(-2, -1))
        seen.extend(np.atleast_1d(found).tolist())
        return found

    bootstrap(mean, scores, apart=apart, repetitions=8000)
    assert seen[1:].count(1.0) / 8000 == pytest.approx(share, abs=0.02)


def test_where_every_pair_is_won_the_interval_is_that_of_a_share_of_all_runs():
    first, second = np.arange(10.0, 15.0)[:, None], np.arange(7.0)[:, None]
    found = improvement(first, second)
    z = 1.96
    assert (found.mean, found.high, found.n) == (1.0, 1.0, 12)
    assert found.low == pytest.approx(1 / (1 + z * z / 5))
    assert improvement(second, first).high == pytest.approx(1 - 1 / (1 + z * z / 5))


def test_intervals_of_five_seeds_hold_the_truth_as_often_as_the_page_says():
    """93.5 % of samples for the IQM, more for the probability; 1000 draws have a deviation of 0.8 %."""
    rng = np.random.default_rng(3)
    middle = above = 0
    truth = norm.cdf(1 / math.sqrt(2))  # P(x > y) of two normals that are one deviation apart
    for _ in range(1000):
        first, second = rng.normal(1, 1, (5, 1)), rng.normal(0, 1, (5, 1))
        found = bootstrap(interquartile_mean, first, repetitions=2000)
        middle += found.low <= 1 <= found.high
        found = improvement(first, second, repetitions=2000)
        above += found.low <= truth <= found.high
    assert 912 <= middle <= 958
    assert above >= 930


def test_both_groups_are_drawn_anew_each_in_itself():
    """Two runs against two: each side is low, high or mixed with 1/4, 1/4, 1/2."""
    first, second = np.array([[0.0], [2.0]]), np.array([[1.0], [3.0]])
    values = []

    def recorded(one, other):
        found = probability_of_improvement(one, other)
        values.extend(np.atleast_1d(found).tolist())
        return found

    bootstrap(recorded, first, second, repetitions=8000)
    shares = {value: values[1:].count(value) / 8000 for value in set(values[1:])}
    # by hand: 1 for high against low; 1/2 for mixed against low and high against mixed; 1/4 for both mixed
    expected = {1.0: 1 / 16, 0.5: 4 / 16, 0.25: 4 / 16, 0.0: 7 / 16}
    assert shares == pytest.approx(expected, abs=0.02)


def test_the_difference_of_means_has_welchs_interval():
    first, second = [1.0, 2.0, 4.0, 3.5, 2.2], [0.5, 0.1, 0.9, 0.2, 0.7]
    found = difference_of_means(first, second)
    exact = ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert found.mean == pytest.approx(fmean(first) - fmean(second))
    assert found.low <= exact.low, "degrees of freedom are rounded down"
    assert exact.high <= found.high
    assert found.high - found.low < 1.2 * (exact.high - exact.low)
    same = ttest_ind([0.0, 2.0, 4.0], [1.0, 3.0, 5.0], equal_var=False).confidence_interval(0.95)
    equal = difference_of_means([0.0, 2.0, 4.0], [1.0, 3.0, 5.0])  # exactly 4 degrees of freedom
    assert (equal.low, equal.high) == pytest.approx((same.low, same.high), rel=1e-9)


def test_two_sets_of_five_seeds_have_their_true_difference_in_the_interval():
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(1000):
        first, second = rng.normal(0.9, 0.05, 5).tolist(), rng.normal(0.8, 0.1, 5).tolist()
        found = difference_of_means(first, second)
        inside += found.low <= 0.1 <= found.high
    assert 930 <= inside <= 985


def test_one_run_has_no_interval():
    one, two = np.array([[1.0]]), np.array([[0.0], [2.0]])
    assert bootstrap(interquartile_mean, one).high == math.inf
    assert bootstrap(probability_of_improvement, one, two).low == -math.inf
    assert difference_of_means([1.0], [0.0, 2.0]).high == math.inf
    assert difference_of_means([1.0, 1.0], [0.0, 0.0]) == (1.0, 1.0, 1.0, 4)
