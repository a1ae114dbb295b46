"""A map from a user's file, as boxes: `.npy` (points or heights), `.pcd` (points) and `.png` (heights).

The file is read as occupied intervals of a grid of columns, which are merged into few boxes.
"""

import functools
import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navrl.config.checks import require, require_number, require_whole
from navrl.envs.navigation.maps.pcd import decode_pcd
from navrl.envs.navigation.maps.png import decode_png
from navrl.envs.navigation.sim.static_obstacles import Boxes, StaticObstacles, absent_cylinders
from navrl.storage.files import read_foreign

Integers = NDArray[np.integer[Any]]


class Columns(NamedTuple):
    """Occupied intervals of height over cells, in steps of the grid, fields (n,); a cell may have several."""

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
    """Join the voxels, which may be repeated, that are above each other."""
    order = _order(level, column, row)
    row, column, level = row[order], column[order], level[order]
    new = np.ones(len(row), dtype=bool)
    new[1:] = (np.diff(row) != 0) | (np.diff(column) != 0) | (np.diff(level) != 0)
    row, column, level = row[new], column[new], level[new]
    first, last = _runs((row, column), level)
    return Columns(row[first], column[first], level[first], level[last] + 1)


def merge(columns: Columns) -> Blocks:
    """Merge columns into boxes of the same space: cells to strips, and equal strips to rectangles.

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
    order = _order(column, row, top, bottom)
    row, column, bottom, top = row[order], column[order], bottom[order], top[order]
    first, last = _runs((bottom, top, row), column)
    row, bottom, top = row[first], bottom[first], top[first]
    low, high = column[first], column[last] + 1
    order = _order(row, high, low, top, bottom)
    row, bottom, top, low, high = (field[order] for field in (row, bottom, top, low, high))
    first, last = _runs((bottom, top, low, high), row)
    return Blocks(row[first], row[last] + 1, low[first], high[first], bottom[first], top[first])


def _order(*keys: Integers) -> Integers:
    """Return the indices in rising order of the last key, where it is equal of the one before, and so on."""
    sizes = [int(key.max()) - int(key.min()) + 1 for key in keys]
    if math.prod(sizes) >= 1 << 62:
        return np.lexsort(keys)
    joined = np.zeros(
        len(keys[0]), dtype=np.int64
    )  # one number per row is sorted ten times as fast
    for key, size in zip(reversed(keys), reversed(sizes), strict=True):
        joined = joined * size + (key - key.min())
    return np.argsort(joined, kind="stable")


def _runs(groups: tuple[Integers, ...], steps: Integers) -> tuple[Integers, Integers]:
    """Return first and last index of every run of consecutive steps within a group; sorted by both."""
    breaks = np.diff(steps) != 1
    for group in groups:
        breaks |= np.diff(group) != 0
    ends = np.flatnonzero(breaks)
    return np.concatenate([[0], ends + 1]), np.append(ends, len(steps) - 1)


_SCALE = "world.map.scale"
_MOST = 1 << 19  # points or pixels that are read; a larger map has to be thinned out first
_MOST_BYTES = 1 << 26  # of a file
_REASON = 300  # letters of an error message about its content
_DAMAGED = (  # errors of numpy about a header, which it reads with Python's own tokenizer and parser
    *(ValueError, TypeError, EOFError, SyntaxError, OverflowError, RecursionError, TokenError),
    MemoryError,
)
_FINEST_M, _FARTHEST_M = 1e-3, 1e5  # coordinates beyond lose their decimetres in float32
_STEPS = np.int32  # of which there are at most 1e5 / 1e-3 on each side of the origin


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The conversion of a file's numbers to metres."""

    resolution_m: float  # side of a column: of a pixel, or of the grid that points are rounded to
    height_step_m: float  # heights are rounded up to it
    height_scale_m: float  # metres per unit of a height map; points are in metres
    origin_m: tuple[float, float, float]  # of the file's own origin in the world
    ground_m: float  # this height and lower is ground

    def checked(self) -> "Scale":
        """Return self, or raise ConfigError for an impossible number."""
        for name in ("resolution_m", "height_step_m"):
            value = getattr(self, name)
            require_number(f"{_SCALE}.{name}", value, least=_FINEST_M, most=_FARTHEST_M)
        require_number(f"{_SCALE}.height_scale_m", self.height_scale_m, above=0.0)
        require_number(f"{_SCALE}.ground_m", self.ground_m, least=0.0)
        usable = isinstance(self.origin_m, Sequence) and len(self.origin_m) == 3
        require(usable, f"{_SCALE}.origin_m", self.origin_m, "x, y and z")
        for number in self.origin_m:
            require_number(f"{_SCALE}.origin_m", number)
        return self


def read_map(path: str | Path, *, scale: Scale, max_boxes: int) -> Boxes:
    """Return the obstacles of the file as boxes (1, B), in the world's axes.

    Point clouds keep gaps: floating parts become boxes with air below. A height map begins at its origin with
    the lowest x and y; rows go along y, in images the last row is the one with the lowest y.
    """
    scale.checked()
    require_whole("world.map.max_boxes", max_boxes, 1)
    path = Path(path)
    try:
        columns = _columns(*_values(path), scale)
    except OSError as error:
        raise ValueError(f"the map {path} cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise ValueError(f"the map {path} does not fit into memory") from error
    except ValueError as error:
        # The message of a library may have several lines, and hold much of the file.
        reason = textwrap.shorten(str(error), _REASON, placeholder="...")
        raise ValueError(f"the map {path} cannot be used: {reason}") from error
    blocks = merge(columns)
    if len(blocks.top) > max_boxes:
        raise ValueError(
            f"the map {path} makes {len(blocks.top)} boxes, and max_boxes={max_boxes} are allowed; raise "
            f"resolution_m or height_step_m in {_SCALE}, or world.map.max_boxes"
        )
    return _boxes(blocks, scale)


def _values(path: Path) -> tuple[NDArray[Any], bool]:
    """Return the array of the file, and whether it holds points (P, 3), not heights (rows, columns)."""
    suffix = path.suffix.lower()
    if suffix not in (".npy", ".pcd", ".png"):
        raise ValueError(f"its name ends in '{path.suffix}'; expected .npy, .pcd or .png")
    content = read_foreign(path, _MOST_BYTES)
    if suffix == ".npy":
        array = _decode_npy(content)
        return array, array.shape[1] == 3
    if suffix == ".pcd":
        return decode_pcd(content, _MOST), True
    return decode_png(content, _MOST)[::-1], False


def _decode_npy(content: bytes) -> NDArray[Any]:
    try:
        # Not np.load, which also reads archives.
        array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except _DAMAGED as error:
        raise ValueError(f"it is no complete .npy array of numbers ({error})") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise ValueError("it holds no real numbers")
    if array.ndim != 2:
        raise ValueError(f"its shape is {array.shape}; expected (points, 3) or (rows, columns)")
    most = 3 * _MOST if array.shape[1] == 3 else _MOST
    if array.size > most:
        raise ValueError(f"it holds {array.size} numbers; at most {most} are read")
    return array


def _columns(values: NDArray[Any], are_points: bool, scale: Scale) -> Columns:
    """Return the occupied columns, or raise for NaN, infinity and absurd coordinates."""
    if values.size == 0:
        raise ValueError(f"it is empty: its shape is {values.shape}")
    bad = int((~np.isfinite(values)).any(axis=1).sum())
    if bad:
        raise ValueError(f"{bad} of its {len(values)} rows hold NaN or infinity; remove them")
    with np.errstate(over="ignore"):
        metres = values.astype(np.float64)  # in place from here on: large maps are held once
        metres *= 1.0 if are_points else scale.height_scale_m
        metres += scale.origin_m if are_points else scale.origin_m[2]
    farthest = max(float(metres.max()), -float(metres.min()))
    if not farthest <= _FARTHEST_M:
        raise ValueError(
            f"it reaches {farthest:g} m; expected at most {_FARTHEST_M:g}: set "
            f"{_SCALE}.origin_m, or scale it"
        )
    columns = _of_points(metres, scale) if are_points else _of_heights(metres, scale)
    if len(columns.top) == 0:
        raise ValueError(
            f"nothing in it is higher than ground_m={scale.ground_m:g}; its highest is "
            f"{float((metres[:, 2] if are_points else metres).max()):g} m: lower it, or raise "
            f"{_SCALE}.{'origin_m' if are_points else 'height_scale_m'}"
        )
    return columns


def _of_heights(heights_m: NDArray[np.float64], scale: Scale) -> Columns:
    """Return a column from the ground for every pixel above it."""
    row, column = (steps.astype(_STEPS) for steps in np.nonzero(heights_m > scale.ground_m))
    # The small number keeps 3.0000000001 steps from becoming four.
    top = np.ceil(heights_m[row, column] / scale.height_step_m - 1e-6).astype(_STEPS)
    return Columns(row, column, np.zeros_like(row), top.clip(min=1))


def _of_points(points_m: NDArray[np.float64], scale: Scale) -> Columns:
    """Return the columns of filled voxels; those from the first voxel above the ground stand on it."""
    points_m = points_m[points_m[:, 2] > scale.ground_m]
    if len(points_m) == 0:
        nothing = np.zeros(0, dtype=_STEPS)
        return Columns(nothing, nothing, nothing, nothing)
    cell = np.floor((points_m[:, :2] - scale.origin_m[:2]) / scale.resolution_m).astype(_STEPS)
    level = np.floor(points_m[:, 2] / scale.height_step_m).astype(_STEPS)
    columns = from_voxels(cell[:, 1], cell[:, 0], level)
    first = math.floor(scale.ground_m / scale.height_step_m)
    return columns._replace(bottom=np.where(columns.bottom <= first, 0, columns.bottom))


def _boxes(blocks: Blocks, scale: Scale) -> Boxes:
    """Return the boxes in metres, (1, B)."""

    def metres(steps: NDArray[Any], step_m: float, offset_m: float) -> torch.Tensor:
        return torch.from_numpy(steps * step_m + offset_m).to(torch.float32).unsqueeze(0)

    half_m, (x_m, y_m, _) = 0.5 * scale.resolution_m, scale.origin_m
    top_m = metres(blocks.top, scale.height_step_m, 0.0)
    return Boxes(
        x=metres(blocks.column_low + blocks.column_high, half_m, x_m),
        y=metres(blocks.row_low + blocks.row_high, half_m, y_m),
        half_x_m=metres(blocks.column_high - blocks.column_low, half_m, 0.0),
        half_y_m=metres(blocks.row_high - blocks.row_low, half_m, 0.0),
        cos_yaw=torch.ones_like(top_m),
        sin_yaw=torch.zeros_like(top_m),
        bottom_m=metres(blocks.bottom, scale.height_step_m, 0.0),
        top_m=top_m,
    )


@dataclass(frozen=True, kw_only=True)
class UserMap:
    """The obstacles of one file, the same in every world; one world is enough."""

    path: str
    scale: Scale
    max_boxes: int

    @functools.cached_property
    def boxes(self) -> Boxes:
        """Return the boxes of the file, (1, B)."""
        return read_map(self.path, scale=self.scale, max_boxes=self.max_boxes)

    @property
    def count(self) -> int:
        """Return the number of boxes; every world has all of them, whatever count is requested."""
        return self.boxes.x.shape[1]

    @property
    def half_side_m(self) -> float:
        """Return infinity: it is unknown before the file is read, and obstacles in sight are counted then."""
        return math.inf

    def make(self, key: Tensor, count: Tensor) -> StaticObstacles:
        """Return the world of the file for every key, whatever the count."""
        worlds = key.shape[0]
        boxes = Boxes(*(field.to(key.device).expand(worlds, -1) for field in self.boxes))
        return StaticObstacles(boxes, absent_cylinders(worlds, 0, key.device))

    def checked(self) -> Self:
        """Return self, or raise a ValueError about the file, before anything is trained."""
        _ = self.boxes
        return self
