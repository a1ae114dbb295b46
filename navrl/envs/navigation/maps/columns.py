"""Occupied intervals of a grid of columns, and the few boxes that fill the same space."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Columns(NamedTuple):
    """Intervals of height over cells, all in steps of the grid, fields (n,); a cell may have several."""

    row: Integers  # along y
    column: Integers  # along x
    bottom: Integers
    top: Integers  # above the last occupied step


class Blocks(NamedTuple):
    """Axis-aligned boxes in steps of the grid, fields (n,); the high ends are not part of them."""

    row_low: Integers
    row_high: Integers
    column_low: Integers
    column_high: Integers
    bottom: Integers
    top: Integers


def from_voxels(row: Integers, column: Integers, level: Integers) -> Columns:
    """Voxels, each named once or more often, with those above each other joined."""
    voxels = np.unique(np.stack([row, column, level], axis=1), axis=0)
    row, column, level = voxels.T
    first, last = _runs((row, column), level)
    return Columns(row[first], column[first], level[first], level[last] + 1)


def merge(columns: Columns) -> Blocks:
    """Boxes that fill exactly the same space: cells joined to strips, and equal strips to rectangles.

    Strips along x and along y are both tried; the fewer boxes win.
    """
    along_x = _rectangles(columns)
    swapped = _rectangles(columns._replace(row=columns.column, column=columns.row))
    if len(along_x.row_low) <= len(swapped.row_low):
        return along_x
    return Blocks(
        swapped.column_low,
        swapped.column_high,
        swapped.row_low,
        swapped.row_high,
        swapped.bottom,
        swapped.top,
    )


def _rectangles(columns: Columns) -> Blocks:
    row, column, bottom, top = columns
    order = np.lexsort((column, row, top, bottom))
    row, column, bottom, top = row[order], column[order], bottom[order], top[order]
    first, last = _runs((bottom, top, row), column)
    row, bottom, top = row[first], bottom[first], top[first]
    low, high = column[first], column[last] + 1
    order = np.lexsort((row, high, low, top, bottom))
    row, bottom, top, low, high = (field[order] for field in (row, bottom, top, low, high))
    first, last = _runs((bottom, top, low, high), row)
    return Blocks(row[first], row[last] + 1, low[first], high[first], bottom[first], top[first])


def _runs(groups: tuple[Integers, ...], steps: Integers) -> tuple[Integers, Integers]:
    """First and last index of every run of consecutive steps within a group; sorted by both."""
    breaks = np.diff(steps) != 1
    for group in groups:
        breaks |= np.diff(group) != 0
    ends = np.flatnonzero(breaks)
    return np.concatenate([[0], ends + 1]), np.append(ends, len(steps) - 1)
