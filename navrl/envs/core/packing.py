"""NamedTuples of env-last tensors, packed into one tensor per kind of number.

A compiled call costs about a microsecond for every tensor that it takes or returns, more than the arithmetic
of a row of a thousand envs. So the state of a simulator enters and leaves a graph as two or three tensors.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

_KINDS: tuple[torch.dtype, ...] = (torch.float32, torch.int32, torch.int64)
Packed = tuple[Tensor, ...]  # (rows, N) of each of these kinds; flags are int32, 0 or 1


class Packing:
    """The rows of the leaves (..., N) in packed trees of the structure of `example`."""

    def __init__(self, example: Any) -> None:
        leaves, self._structure = pytree.tree_flatten(example)
        self._places: list[tuple[int, slice, torch.Size, bool]] = []
        rows = [0] * len(_KINDS)
        for leaf in leaves:
            flag = leaf.dtype == torch.bool
            kind = _kind(leaf)
            place = slice(rows[kind], rows[kind] + leaf.shape[:-1].numel())
            rows[kind] = place.stop
            self._places.append((kind, place, leaf.shape, flag))

    def unpack(self, packed: Packed) -> Any:
        """Return the tree of these rows; all leaves but flags are views."""
        found = [packed[kind][place].view(shape) for kind, place, shape, _ in self._places]
        leaves = [
            leaf != 0 if flag else leaf
            for leaf, (_, _, _, flag) in zip(found, self._places, strict=True)
        ]
        return pytree.tree_unflatten(leaves, self._structure)


def pack(tree: Any) -> Packed:
    """Return the rows of all leaves, in their order; so a leaf may also be a tuple of its parts."""
    rows: list[list[Tensor]] = [[] for _ in _KINDS]
    for leaf in pytree.tree_leaves(tree):
        kind = _kind(leaf)
        rows[kind].append(leaf.reshape(-1, leaf.shape[-1]).to(_KINDS[kind]))
    for kind_rows, dtype in zip(rows, _KINDS, strict=True):
        kind_rows.append(leaf.new_empty(0, leaf.shape[-1], dtype=dtype))  # a kind may have no rows
    return tuple(torch.cat(kind_rows) for kind_rows in rows)


def _kind(leaf: Tensor) -> int:
    """Return the number of the packed tensor that holds the leaf."""
    stored = torch.int32 if leaf.dtype == torch.bool else leaf.dtype
    if stored not in _KINDS:
        raise TypeError(f"a leaf of {leaf.dtype}; expected {_KINDS} or bool; change its type")
    return _KINDS.index(stored)
