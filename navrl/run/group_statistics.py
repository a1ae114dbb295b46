"""Statistics of groups of runs that differ in their seeds: interquartile mean, probability of improvement.

Both are those of Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice.
Their bootstrap draws runs anew within each task, for each task has runs of its own there. Ours draws whole
runs unless told otherwise: the scores of one policy in several tasks rise and fall together. Plain
percentiles are too narrow for a few runs, so they are moved outwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from navrl.run.intervals import Interval, t_quantile, wilson

Scores = NDArray[np.float64]  # [..., runs, tasks]

REPETITIONS = 10_000
_MOST_VALUES = 4_000_000  # at once
_TAIL = 0.025  # of a 95 % interval on each side
_CUT = 0.25  # of the scores, at each end


def interquartile_mean(scores: Scores) -> Scores:
    """Return the mean of the middle half of the scores of all runs and tasks."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = int(_CUT * flat.shape[-1])
    middle: Scores = flat[..., cut : flat.shape[-1] - cut].mean(axis=-1)
    return middle


def probability_of_improvement(first: Scores, second: Scores) -> Scores:
    """Return the mean over tasks of how probably a run of the first group is above one of the second.

    Equal scores count half (Mann and Whitney's U over the number of pairs).
    """
    one, other = first[..., :, None, :], second[..., None, :, :]  # [..., runs, other runs, tasks]
    won: Scores = ((one > other) + 0.5 * (one == other)).mean(axis=(-3, -2, -1))
    return won


def bootstrap(
    statistic: Callable[..., Scores],
    *groups: Scores,
    apart: bool = False,
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> Interval:
    """Return a statistic of groups [runs, tasks] with its 95 % interval, unbounded below two runs.

    Runs are drawn with replacement in each group, and in each task apart if that is wanted.
    """
    value, n = float(statistic(*groups)), sum(len(group) for group in groups)
    if min(len(group) for group in groups) < 2:
        return Interval(value, -math.inf, math.inf, n)
    rng = np.random.default_rng(seed)
    size = math.prod(len(group) for group in groups) * groups[0].shape[1]
    at_once = max(1, min(repetitions, _MOST_VALUES // size))
    found = []
    for begin in range(0, repetitions, at_once):
        number = min(at_once, repetitions - begin)
        found.append(statistic(*(_drawn(rng, group, number, apart) for group in groups)))
    tail = expanded_tail(min(len(group) for group in groups))
    low, high = np.quantile(np.concatenate(found), (tail, 1 - tail))
    return Interval(value, float(low), float(high), n)


def expanded_tail(runs: int) -> float:
    """Return the share of a bootstrap beyond each end, which makes up for the few runs (Hesterberg 2015).

    It moves the ends as Student's t and the sample deviation do beside the normal; for many runs it is 2.5 %.
    """
    return NormalDist().cdf(-math.sqrt(runs / (runs - 1)) * t_quantile(1 - _TAIL, runs - 1))


def _drawn(rng: np.random.Generator, scores: Scores, number: int, apart: bool) -> Scores:
    """Return so many samples [number, runs, tasks] of runs."""
    runs, tasks = scores.shape
    index = rng.integers(0, runs, (number, runs, tasks if apart else 1))
    drawn: Scores = scores[index, np.arange(tasks)]
    return drawn


def improvement(
    first: Scores, second: Scores, *, apart: bool = False, repetitions: int = REPETITIONS
) -> Interval:
    """Return the probability of improvement with its 95 % interval.

    Where one group won every pair, it does so in all samples that can be drawn. Then the interval is
    Wilson's of as many runs as the smaller group has: no U over the pairs has more variance.
    """
    found = bootstrap(
        probability_of_improvement, first, second, apart=apart, repetitions=repetitions
    )
    if math.isfinite(found.low) and found.mean in (0.0, 1.0):
        runs = min(len(first), len(second))
        return wilson(found.mean * runs, runs)._replace(n=found.n)
    return found


def difference_of_means(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the difference of two means with Welch's 95 % interval, unbounded below two samples."""
    n = len(first) + len(second)
    difference = float(np.mean(first) - np.mean(second))
    if min(len(first), len(second)) < 2:
        return Interval(difference, -math.inf, math.inf, n)
    errors = [float(np.var(group, ddof=1)) / len(group) for group in (first, second)]
    total = sum(errors)
    if total == 0.0:
        return Interval(difference, difference, difference, n)
    shares = [error / total for error in errors]  # their squares do not vanish
    degrees = 1.0 / sum(
        share**2 / (len(group) - 1) for share, group in zip(shares, (first, second), strict=True)
    )
    half = t_quantile(1 - _TAIL, max(1, math.floor(degrees + 1e-9))) * math.sqrt(total)
    return Interval(difference, difference - half, difference + half, n)
