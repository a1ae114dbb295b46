"""Reductions of a few rows of tensors: exact in any batch size, and cheap once compiled."""

import functools

import torch
from torch import Tensor


def sum_rows(rows: Tensor) -> Tensor:
    """Sum (R, ..., N) over R by halves, in an order that does not depend on N, unlike torch's own."""
    left = []  # rows that had no partner
    while rows.shape[0] > 1:
        half = rows.shape[0] // 2
        left += [*rows[2 * half :]]
        rows = rows[:half] + rows[half : 2 * half]
    total = rows[0]
    for row in left:
        total = total + row
    return total


def any_row(flags: Tensor) -> Tensor:
    """Return `flags.any(0)`, written out: compilers turn a reduction of a few bool rows into slow code."""
    first, *others = flags.unbind(0)
    return functools.reduce(torch.logical_or, others, first)
