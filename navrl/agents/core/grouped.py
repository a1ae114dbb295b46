"""Minibatches of frames that are kept packed: some minibatches' rows are made plain at a time."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor


def minibatches_of(
    frames: TensorDictBase, indices: Iterator[Tensor], gradients: Callable[[TensorDictBase], Any]
) -> Iterator[tuple[Any, Tensor]]:
    """gradients(rows) and an index into these rows, for every index (B,) into `frames` (rows,).

    Plain frames are gathered by the index itself. Of leaves that are kept packed (which say how many
    `rows_at_once` may be made) the rows of the next few minibatches are made together, into one buffer.
    """
    at_once = _rows_at_once(frames)
    if at_once is None:
        whole = gradients(frames)
        yield from ((whole, index) for index in indices)
        return
    rows: TensorDictBase | None = None
    for index in indices:
        group = [index, *itertools.islice(indices, max(1, at_once // len(index)) - 1)]
        together = torch.cat(group)
        rows = _gathered(frames, together, rows)
        some = gradients(rows)
        places = torch.arange(len(together), device=index.device)
        yield from ((some, place) for place in torch.split(places, len(index)))


def _rows_at_once(frames: TensorDictBase) -> int | None:
    limits = (
        getattr(leaf, "rows_at_once", None)
        for leaf in frames.values(include_nested=True, leaves_only=True)
    )
    return min((limit for limit in limits if limit is not None), default=None)


def _gathered(
    frames: TensorDictBase, index: Tensor, buffer: TensorDictBase | None
) -> TensorDictBase:
    """These rows of every leaf; in the buffer, if there are not more than it holds."""
    if buffer is None or len(index) != len(buffer):
        return frames.apply(lambda leaf: leaf.index_select(0, index), batch_size=index.shape)
    into: TensorDictBase = frames.apply(
        lambda leaf, out: torch.index_select(leaf, 0, index, out=out),
        buffer,
        batch_size=index.shape,
    )
    return into
