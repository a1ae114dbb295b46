"""Curves of runs over frames, with means and 95 % intervals over runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from navrl.loggers.table import Column, Table
from navrl.run.intervals import t_quantile

Rows = Table | Sequence[dict[str, float]]
Numbers = list[float | None]  # None where a run has no value

LARGEST = 1e150  # whose square, in a deviation, is still a number
YOUNG = 3  # iterations of a training that run eager or compile: their times foretell nothing
_MOST_POINTS = 240
_DIGITS = 5
_TAIL = 0.025  # of a 95 % interval on each side
_FIRST = 0.1  # of the steps, those whose values may dwarf the rest
_DWARFED = 3.0  # times the range of the rest
_FEWEST = 8  # steps with values, of which a first one may dwarf the rest


class Axis(NamedTuple):
    """An axis of equal steps of frames; a row within a step counts as logged at the end of the step."""

    frames: float  # of a step
    points: int

    @property
    def ends(self) -> list[int]:
        """Return the frames at which the steps end."""
        return [round(self.frames * (step + 1)) for step in range(self.points)]

    def places(self, frames: Column) -> NDArray[np.int64]:
        """Return the steps that contain these frames."""
        steps = np.ceil(frames / self.frames - 1e-9).astype(np.int64) - 1
        return np.clip(steps, 0, self.points - 1)


class Band(NamedTuple):
    """The mean over runs and its 95 % interval, which is None where nothing tells it."""

    mean: Numbers
    low: Numbers
    high: Numbers


def axis(rows: Sequence[Rows]) -> Axis:
    """Return an axis with as many steps as the longest run has iterations, up to what a screen can show."""
    frames = [column(run, "frames") for run in rows]
    most = max((float(run.max()) for run in frames if run.size), default=1.0)
    iterations = max((len(np.unique(run)) for run in frames), default=1)
    points = max(min(iterations, _MOST_POINTS), 1)
    return Axis(max(most, 1.0) / points, points)


def curve(rows: Rows, metric: str, on: Axis) -> Numbers:
    """Return the mean of a metric over the rows of each step, for one run."""
    values = column(rows, metric)
    known = np.abs(values) < LARGEST  # also not of nan
    places = on.places(column(rows, "frames")[known])
    counts = np.bincount(places, minlength=on.points)
    sums = np.bincount(places, values[known], minlength=on.points)
    pairs = zip(sums.tolist(), counts.tolist(), strict=True)
    return [_rounded(total / count) if count else None for total, count in pairs]


def column(rows: Rows, metric: str) -> Column:
    """Return a metric of every row, nan where it is missing."""
    if isinstance(rows, Table):
        return rows.column(metric)
    return np.array([row.get(metric) for row in rows], dtype=np.float64)


def metrics_of(rows: Rows) -> list[str]:
    """Return the metrics of the rows, in the order in which they were logged."""
    return (
        rows.names
        if isinstance(rows, Table)
        else [*dict.fromkeys(key for row in rows for key in row)]
    )


def band(curves: Sequence[Numbers], *, share: bool = False) -> Band:
    """Return the mean with Student's 95 % interval, step by step, over the runs that have a value.

    The interval of a share is cut to [0, 1], which Student's formula does not know. One run has none.
    """
    columns = [[value for value in step if value is not None] for step in zip(*curves, strict=True)]
    means = [fmean(values) if values else None for values in columns]
    halves = [_half(values) for values in columns]
    least, most = (0.0, 1.0) if share else (-math.inf, math.inf)
    pairs = list(zip(means, halves, strict=True))
    return Band(
        [None if mean is None else _rounded(mean) for mean in means],
        [
            None if mean is None or half is None else _rounded(max(mean - half, least))
            for mean, half in pairs
        ],
        [
            None if mean is None or half is None else _rounded(min(mean + half, most))
            for mean, half in pairs
        ],
    )


def settled(curves: Sequence[Numbers]) -> int:
    """Return the first step that counts for the range of an axis, 0 unless first values dwarf the rest.

    They do if the range of all values is several times that of those after the first tenth.
    """
    steps = [[value for value in step if value is not None] for step in zip(*curves, strict=True)]
    known = [index for index, values in enumerate(steps) if values]
    if len(known) < _FEWEST:
        return 0
    last = known[math.ceil(_FIRST * len(known))]  # the first step of the rest
    rest = _range(steps[last:])
    if not 0.0 < _DWARFED * rest < _range(steps):
        return 0
    return next(at for at in known if _range(steps[at:]) <= _DWARFED * rest)


def drawable(value: float | None) -> float | None:
    """Return the value if a picture can show it."""
    return value if value is not None and abs(value) < LARGEST else None  # also not of nan


def _half(values: Sequence[float]) -> float | None:
    """Return half of Student's interval."""
    if len(values) < 2:
        return None
    return t_quantile(1.0 - _TAIL, len(values) - 1) * stdev(values) / math.sqrt(len(values))


def _range(steps: Sequence[Sequence[float]]) -> float:
    values = [value for step in steps for value in step]
    return max(values) - min(values)


def _rounded(value: float) -> float:
    """Return the value with as many digits as a picture needs."""
    return float(f"{value:.{_DIGITS}g}")
