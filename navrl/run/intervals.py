"""Intervals, so that no result is shown without its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

_EXACT_DEGREES = 200  # beyond this the expansion around the normal is exact to seven digits


class Interval(NamedTuple):
    """An estimate, the interval around it, and the number of samples behind both."""

    mean: float
    low: float
    high: float
    n: int

    def within(self, least: float, most: float) -> Interval:
        """Return the interval cut to these bounds, which Student's formula does not know."""
        return self._replace(low=max(self.low, least), high=min(self.high, most))


def wilson(successes: float, n: int, z: float = 1.96) -> Interval:
    """Wilson's score interval of a proportion; without samples it is all of [0, 1]."""
    if not 0 <= successes <= n:
        raise ValueError(f"successes = {successes} must lie between 0 and n = {n}")
    if n == 0:
        return Interval(math.nan, 0.0, 1.0, 0)
    share = successes / n
    denominator = 1.0 + z * z / n
    centre = (share + z * z / (2.0 * n)) / denominator
    half = z / denominator * math.sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n))
    # at 0 of n and n of n the bound is exactly 0 or 1, which rounding would miss
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Interval(share, low, high, n)


def mean_interval(values: Tensor | Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean of a continuous metric with Student's t interval; infinite below two samples."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence = {confidence} must lie strictly between 0 and 1")
    import torch  # takes seconds, which what only lists runs does not have

    sample = torch.as_tensor(values, dtype=torch.float64).flatten()
    n = sample.numel()
    if n == 0:
        return Interval(math.nan, -math.inf, math.inf, 0)
    mean = float(sample.mean())
    if n == 1:
        return Interval(mean, -math.inf, math.inf, 1)
    half = t_quantile(0.5 + confidence / 2.0, n - 1) * float(sample.std()) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n)


@lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees: int) -> float:
    """The point that Student's t stays below with this probability (0.5 to 1)."""
    if not 0.5 <= probability < 1.0 or degrees < 1:
        raise ValueError(
            f"probability = {probability} must lie in [0.5, 1) and degrees = {degrees} be positive"
        )
    if degrees > _EXACT_DEGREES:
        return _near_normal_quantile(NormalDist().inv_cdf(probability), degrees)
    inside = 2.0 * probability - 1.0
    low, high = 0.0, math.pi / 2.0
    for _ in range(100):  # bisection on the angle atan(t / sqrt(degrees)), to machine precision
        middle = (low + high) / 2.0
        low, high = (middle, high) if _inside(middle, degrees) < inside else (low, middle)
    return math.sqrt(degrees) * math.tan((low + high) / 2.0)


def _inside(angle: float, degrees: int) -> float:
    """P(|T| < sqrt(degrees) tan(angle)), Abramowitz and Stegun 26.7.3 and 26.7.4."""
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + odd, degrees, 2):
        term *= math.cos(angle) ** 2 * (k - 1) / k
        total += term
    sine = math.sin(angle)
    return (angle + sine * total) * 2.0 / math.pi if odd else sine * total


def _near_normal_quantile(z: float, degrees: int) -> float:
    """Abramowitz and Stegun 26.7.5 to third order."""
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / degrees + second / degrees**2 + third / degrees**3
