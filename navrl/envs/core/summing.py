"""Sums in an order that does not depend on the number of envs, unlike torch's own."""

from torch import Tensor


def added(rows: Tensor) -> Tensor:
    """The sum of (R, ..., N) over R, by halves: few operations, and small errors."""
    left = []  # rows that had no partner
    while rows.shape[0] > 1:
        half = rows.shape[0] // 2
        left += [*rows[2 * half :]]
        rows = rows[:half] + rows[half : 2 * half]
    total = rows[0]
    for row in left:
        total = total + row
    return total
