"""Random numbers of policies: those of all envs of the run are drawn on every rank, which then takes its own.

So an env meets the same random numbers in any number of ranks, and torch's generator stays in step on all.
Every function draws as many numbers as it returns, whatever they are used for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

_TRIES = (
    6  # for a gamma variate; all fail once in 10^8 draws or less, then it is a number near the mean
)
_LEAST = 2.0**-25  # half the step between uniform numbers


class Rows(NamedTuple):
    """The place of this rank's envs among those of the run."""

    first: int
    own: int
    total: int
    piece: int  # envs of one shard


# None or one: of the training of this process. A compiled policy keeps what it found at its first call.
_rows: list[Rows] = []


@contextlib.contextmanager
def rows_of_run(rows: Rows) -> Iterator[None]:
    """Draw for all envs of the run while open, wherever as many are asked for as this rank has."""
    _rows.append(rows)
    try:
        yield
    finally:
        _rows.pop()


@contextlib.contextmanager
def rows_of_evaluation() -> Iterator[None]:
    """Draw for the envs that are asked for and no others while open."""
    kept = list(_rows)
    _rows.clear()
    try:
        yield
    finally:
        _rows.extend(kept)


def rows_for(num_envs: int) -> Rows:
    """Return the place of so many envs among those of the run; alone they are all."""
    rows = _rows[-1] if _rows else None
    if rows is None or num_envs != rows.own:
        return Rows(first=0, own=num_envs, total=num_envs, piece=num_envs)
    return rows


def by_shards(function: Callable[[Any], Any], frames: Any) -> Any:
    """Return what the function makes of the frames of all own envs, computed for each shard by itself.

    A matrix product rounds otherwise for another number of rows. The result is a tensor or a tuple of them.
    """
    if not _rows:  # nor is the size looked at, which a graph for any number of rows must not do
        return function(frames)
    frames = frames if frames.ndim else frames.copy().auto_batch_size_(1)
    rows = rows_for(frames.shape[0])
    if rows.piece == rows.own:
        return function(frames)
    results = [function(part) for part in frames.split(rows.piece)]
    if isinstance(results[0], Tensor):
        return torch.cat(results)
    return tuple(torch.cat(parts) for parts in zip(*results, strict=True))


def uniform(shape: Sequence[int], like: Tensor, *, axis: int) -> Tensor:
    """Return uniform numbers in [0, 1) of this shape, with the envs along the axis."""
    drawn, own = _drawn(shape, axis)
    return torch.rand(drawn, dtype=like.dtype, device=like.device)[own]


def normal(shape: Sequence[int], like: Tensor, *, axis: int) -> Tensor:
    """Return standard normal numbers of this shape, with the envs along the axis."""
    drawn, own = _drawn(shape, axis)
    return torch.randn(drawn, dtype=like.dtype, device=like.device)[own]


def exponential(shape: Sequence[int], like: Tensor, *, axis: int) -> Tensor:
    """Return exponential numbers of rate 1 of this shape, with the envs along the axis."""
    drawn, own = _drawn(shape, axis)
    return torch.empty(drawn, dtype=like.dtype, device=like.device).exponential_()[own]


def whole(below: int, shape: Sequence[int], device: torch.device, *, axis: int) -> Tensor:
    """Return whole numbers from 0 to below `below` of this shape, with the envs along the axis."""
    drawn, own = _drawn(shape, axis)
    return torch.randint(below, drawn, device=device)[own]


def _drawn(shape: Sequence[int], axis: int) -> tuple[list[int], tuple[slice, ...]]:
    """Return the shape to draw, and where this rank's numbers are in it."""
    sizes = list(shape)
    rows = rows_for(sizes[axis])
    if rows.own == rows.total:
        return sizes, ()
    sizes[axis] = rows.total
    return sizes, (*(slice(None),) * axis, slice(rows.first, rows.first + rows.own))


def gamma(concentration: Tensor, *, axis: int) -> Tensor:
    """Return gamma variates of these concentrations and rate 1, with the envs along the axis.

    Marsaglia and Tsang's method (ACM TOMS 26, 2000) with a fixed number of tries for every variate: torch's
    own takes as many random numbers as it happens to need, after which ranks would be out of step.
    """
    small = concentration < 1.0
    raised = torch.where(small, concentration + 1.0, concentration)
    third = raised - 1.0 / 3.0
    tries = (_TRIES, *concentration.shape)
    bell = normal(tries, concentration, axis=axis + 1)
    chance = uniform(tries, concentration, axis=axis + 1)
    cube = (1.0 + bell / (9.0 * third).sqrt()) ** 3
    positive = cube > 0.0
    cube = torch.where(positive, cube, 1.0)
    accepted = positive & (chance.log() < 0.5 * bell * bell + third * (1.0 - cube + cube.log()))
    chosen = cube.gather(0, accepted.int().argmax(0, keepdim=True)).squeeze(0)
    drawn = third * torch.where(accepted.any(0), chosen, 1.0)
    lower = uniform(concentration.shape, concentration, axis=axis)
    return torch.where(small, drawn * lower.clamp_min(_LEAST) ** (1.0 / concentration), drawn)
