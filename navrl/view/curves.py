"""Metrics of several runs on one axis of frames: means over runs, and how far runs are apart."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

Numbers = list[float | None]  # None where nothing is known

_MOST_POINTS = 240
_DIGITS = 5


class Axis(NamedTuple):
    """Equal steps of frames; what is logged within a step counts as logged at its end."""

    frames: float  # of a step
    points: int

    @property
    def ends(self) -> list[int]:
        """The frames at which steps end."""
        return [round(self.frames * (step + 1)) for step in range(self.points)]

    def place(self, frames: float) -> int:
        """The step in which these frames are."""
        return min(max(math.ceil(frames / self.frames - 1e-9) - 1, 0), self.points - 1)


class Band(NamedTuple):
    """A mean over runs and their sample standard deviation, which one run has not."""

    mean: Numbers
    deviation: Numbers


def axis(rows: Sequence[Sequence[dict[str, float]]]) -> Axis:
    """As many steps as the longest run has rounds, up to what a screen can show."""
    most = max((row["frames"] for run in rows for row in run), default=1.0)
    rounds = max((len({row["frames"] for row in run}) for run in rows), default=1)
    points = max(min(rounds, _MOST_POINTS), 1)
    return Axis(max(most, 1.0) / points, points)


def curve(rows: Sequence[dict[str, float]], metric: str, on: Axis) -> Numbers:
    """Of one run: the mean over the rows of each step that know the metric."""
    found: list[list[float]] = [[] for _ in range(on.points)]
    for row in rows:
        value = row.get(metric, math.nan)
        if math.isfinite(value):
            found[on.place(row["frames"])].append(value)
    return [_short(fmean(values)) if values else None for values in found]


def band(curves: Sequence[Numbers]) -> Band:
    """Of several runs, where they are known."""
    columns = [[value for value in step if value is not None] for step in zip(*curves, strict=True)]
    return Band(
        [_short(fmean(values)) if values else None for values in columns],
        [_short(stdev(values)) if len(values) > 1 else None for values in columns],
    )


def _short(value: float) -> float:
    """A picture needs no more digits."""
    return float(f"{value:.{_DIGITS}g}")
