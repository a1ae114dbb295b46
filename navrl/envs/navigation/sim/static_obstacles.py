"""Static obstacles, and the table of those in sight from each cell of a grid.

G worlds at once, world axis first. The table is built when a world is made, so that a step looks only at
the few obstacles near the drone and its cost does not grow with the world.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.config.checks import require, require_number

FAR_M = 1e6  # x and y of absent obstacles: no ray reaches them
_MARGIN_M = 1e-3  # a position at the edge of a cell may be rounded into its neighbour
_MOST_CELLS = 2000  # along a side
_CHUNK = 1 << 22  # elements per temporary tensor


class Boxes(NamedTuple):
    """Upright boxes turned about z, fields (G, B); an absent one lies at x = y = FAR_M with size 0."""

    x: Tensor
    y: Tensor
    half_x_m: Tensor  # along the box's own x axis
    half_y_m: Tensor
    cos_yaw: Tensor
    sin_yaw: Tensor
    bottom_m: Tensor
    top_m: Tensor


class Cylinders(NamedTuple):
    """Upright cylinders, fields (G, C); an absent one lies at x = y = FAR_M with radius 0."""

    x: Tensor
    y: Tensor
    radius_m: Tensor
    bottom_m: Tensor
    top_m: Tensor


class Footprint(NamedTuple):
    """A turned rectangle with rounded corners, seen from above; a disc has no sides but a radius."""

    x: Tensor
    y: Tensor
    half_x_m: Tensor
    half_y_m: Tensor
    cos_yaw: Tensor
    sin_yaw: Tensor
    radius_m: Tensor

    @property
    def extent_x_m(self) -> Tensor:
        """Return half the width along the world's x axis."""
        along = self.half_x_m * self.cos_yaw.abs() + self.half_y_m * self.sin_yaw.abs()
        return along + self.radius_m

    @property
    def extent_y_m(self) -> Tensor:
        """Return half the width along the world's y axis."""
        along = self.half_x_m * self.sin_yaw.abs() + self.half_y_m * self.cos_yaw.abs()
        return along + self.radius_m


class StaticObstacles(NamedTuple):
    """The obstacles of G worlds."""

    boxes: Boxes
    cylinders: Cylinders


class Worlds(NamedTuple):
    """G static worlds; the last box and the last cylinder of each are absent, and pad the tables."""

    boxes: Boxes
    cylinders: Cylinders
    box_cells: Tensor  # int32 (G, cells, boxes_per_cell), indices into boxes
    cylinder_cells: Tensor  # int32 (G, cells, cylinders_per_cell)


class CrowdedError(ValueError):
    """The error of more obstacles in sight of a cell than its table holds."""

    def __init__(self, message: str, worlds: Tensor) -> None:
        super().__init__(message)
        self.worlds = worlds  # bool (G,), the crowded ones


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Square cells over [-half_extent_m, half_extent_m] in x and y; reach_m is how far a drone sees."""

    half_extent_m: float
    cell_m: float
    reach_m: float

    def __post_init__(self) -> None:
        """Raise ConfigError for a grid without cells, or with too many."""
        for option, size in (
            ("world.half_extent_m", self.half_extent_m),
            ("world.cell_m", self.cell_m),
            ("env.sim.lidar.range_m", self.reach_m),
        ):
            require_number(option, size, above=0.0)
        least_m = 2.0 * self.half_extent_m / _MOST_CELLS
        expected = f"{least_m:g} or more: each cell costs memory"
        require(self.cell_m >= least_m, "world.cell_m", self.cell_m, expected)

    @property
    def side(self) -> int:
        """Return the number of cells along x, and along y."""
        return math.ceil(2.0 * self.half_extent_m / self.cell_m)

    @property
    def cells(self) -> int:
        """Return the number of cells in all."""
        return self.side * self.side

    def least_in_sight(self, count: int, half_side_m: float) -> int:
        """Return a lower bound on the obstacles in sight of the fullest cell, for `count` in a square.

        Each obstacle is in sight of all cells that a disc about it touches; the bound is the mean over cells.
        """
        disc_m = min(
            self.reach_m, self.half_extent_m - half_side_m
        )  # the disc stays inside the grid
        if disc_m <= 0.0:
            return 0
        sights = count * math.pi * (disc_m / self.cell_m) ** 2
        return math.ceil(sights / (2.0 * (half_side_m + disc_m) / self.cell_m + 2.0) ** 2)

    def cell_index(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the index of the cell that holds the point, or of the nearest one; int64, shape of x.

        A point outside sees no more obstacles than the nearest point inside: all lie inside.
        """
        column = ((x + self.half_extent_m) * (1.0 / self.cell_m)).floor().to(torch.int64)
        row = ((y + self.half_extent_m) * (1.0 / self.cell_m)).floor().to(torch.int64)
        return row.clamp(0, self.side - 1) * self.side + column.clamp(0, self.side - 1)


def build_worlds(
    grid: Grid, boxes: Boxes, cylinders: Cylinders, *, boxes_per_cell: int, cylinders_per_cell: int
) -> Worlds:
    """Return the worlds with these obstacles, and one absent obstacle of each kind."""
    _check_inside(grid, "box", footprint(boxes))
    _check_inside(grid, "cylinder", footprint(cylinders))
    count, device = boxes.x.shape[0], boxes.x.device
    return Worlds(
        boxes=Boxes(*map(_joined, boxes, absent_boxes(count, 1, device))),
        cylinders=Cylinders(*map(_joined, cylinders, absent_cylinders(count, 1, device))),
        box_cells=build_cells(grid, boxes, limit=boxes_per_cell, option="world.boxes_per_cell"),
        cylinder_cells=build_cells(
            grid, cylinders, limit=cylinders_per_cell, option="world.cylinders_per_cell"
        ),
    )


def build_cells(grid: Grid, obstacles: Boxes | Cylinders, *, limit: int, option: str) -> Tensor:
    """Return for every cell the obstacles within reach of any of its points, int32 (G, cells, limit).

    Free places hold the number of obstacles, the index of the one that build_worlds appends.
    """
    worlds, count = obstacles.x.shape
    table = obstacles.x.new_full((worlds, grid.cells, limit), count, dtype=torch.int32)
    most = obstacles.x.new_zeros((worlds,), dtype=torch.int64)
    at_once = max(1, _CHUNK // max(1, grid.side * count))
    for first in range(0, worlds, at_once):
        part = slice(first, first + at_once)
        shapes = Footprint(*(field[part] for field in footprint(obstacles)))
        _fill(grid, shapes, table[part], most[part])
    if bool((most > limit).any()):
        raise CrowdedError(
            f"{int(most.max())} obstacles of one kind are within {grid.reach_m:g} m of a cell, and "
            f"{option}={limit} are allowed; raise {option}, or place fewer obstacles",
            most > limit,
        )
    return table


def absent_boxes(worlds: int, count: int, device: torch.device | str = "cpu") -> Boxes:
    """Return boxes that are absent, (G, B)."""
    zero = torch.zeros((worlds, count), device=device)
    far = zero + FAR_M
    return Boxes(far, far, zero, zero, zero + 1.0, zero, zero, zero)


def absent_cylinders(worlds: int, count: int, device: torch.device | str = "cpu") -> Cylinders:
    """Return cylinders that are absent, (G, C)."""
    zero = torch.zeros((worlds, count), device=device)
    return Cylinders(zero + FAR_M, zero + FAR_M, zero, zero, zero)


def in_sight(grid: Grid, worlds: Worlds, world: Tensor, x: Tensor, y: Tensor) -> StaticObstacles:
    """Return the obstacles that the cells of points (N,) in worlds int64 (N,) list, fields (N, K)."""
    cell = world * grid.cells + grid.cell_index(x, y)
    return StaticObstacles(
        Boxes(*_listed(worlds.boxes, worlds.box_cells, world, cell)),
        Cylinders(*_listed(worlds.cylinders, worlds.cylinder_cells, world, cell)),
    )


def _listed(
    obstacles: Boxes | Cylinders, cells: Tensor, world: Tensor, cell: Tensor
) -> tuple[Tensor, ...]:
    """Return the fields (N, K) of the obstacles that the cells (N,) of these worlds (N,) list."""
    first = (world * obstacles.x.shape[1]).unsqueeze(-1)
    index = cells.flatten(0, 1)[cell].to(torch.int64) + first
    return tuple(field.flatten()[index] for field in obstacles)


def is_present(x: Tensor) -> Tensor:
    """Return the mask of obstacles that are present, from their x."""
    return x < 0.5 * FAR_M


def footprint(obstacles: Boxes | Cylinders) -> Footprint:
    """Return the shapes of the obstacles seen from above."""
    zero = torch.zeros_like(obstacles.x)
    if isinstance(obstacles, Boxes):
        return Footprint(*obstacles[:6], zero)
    return Footprint(obstacles.x, obstacles.y, zero, zero, zero + 1.0, zero, obstacles.radius_m)


def _joined(fields: Tensor, more: Tensor) -> Tensor:
    return torch.cat([fields, more], dim=1)


def _check_inside(grid: Grid, kind: str, shapes: Footprint) -> None:
    """Raise for an obstacle outside the grid: a drone outside uses the nearest cell."""
    outermost = torch.maximum(
        shapes.x.abs() + shapes.extent_x_m, shapes.y.abs() + shapes.extent_y_m
    )
    # Written so that a NaN is refused too.
    outside = is_present(shapes.x) & ~(outermost <= grid.half_extent_m)
    outside = outside | shapes.x.isnan()
    if bool(outside.any()):
        raise ValueError(
            f"a {kind} reaches {float(outermost[outside].max()):g} m from the middle of the world, and the "
            f"grid ends at world.half_extent_m={grid.half_extent_m:g}; raise world.half_extent_m"
        )


def _fill(grid: Grid, shapes: Footprint, table: Tensor, most: Tensor) -> None:
    """Write the table (g, cells, limit) of some worlds, and the largest count of any cell (g,)."""
    reach_m, half = grid.reach_m + _MARGIN_M, 0.5 * grid.cell_m
    edges = torch.arange(grid.side, device=table.device, dtype=torch.float32)
    centre = (edges + 0.5) * grid.cell_m - grid.half_extent_m
    offset_x = centre[:, None] - shapes.x[:, None]  # (g, side, B)
    gap_x = (offset_x.abs() - shapes.extent_x_m[:, None] - half).clamp_min(0.0)
    for row in range(grid.side):
        gap_y = ((centre[row] - shapes.y).abs() - shapes.extent_y_m - half).clamp_min(0.0)
        near = gap_x.square() + gap_y.square()[:, None] <= reach_m**2
        world, column, index = near.nonzero(as_tuple=True)
        pairs = Footprint(*(field[world, index] for field in shapes))
        kept = _near(pairs, centre[column], centre[row], half=half, reach_m=reach_m)
        world, column, index = world[kept], column[kept], index[kept]
        if index.numel() > 0:
            _write(table, most, world, row * grid.side + column, index)


def _near(shapes: Footprint, x: Tensor, y: Tensor, *, half: float, reach_m: float) -> Tensor:
    """Return which shapes can be within reach of their cells, both seen along the shape's axes.

    The cell counts as the rectangle around it along these axes, which keeps a few boxes too many.
    """
    east, north = x - shapes.x, y - shapes.y
    along = east * shapes.cos_yaw + north * shapes.sin_yaw
    across = north * shapes.cos_yaw - east * shapes.sin_yaw
    widest = half * (shapes.cos_yaw.abs() + shapes.sin_yaw.abs())
    gap_along = (along.abs() - shapes.half_x_m - widest).clamp_min(0.0)
    gap_across = (across.abs() - shapes.half_y_m - widest).clamp_min(0.0)
    return gap_along.square() + gap_across.square() <= (reach_m + shapes.radius_m).square()


def _write(table: Tensor, most: Tensor, world: Tensor, cell: Tensor, index: Tensor) -> None:
    """Write pairs, sorted by world and cell, into the table, as many as it holds."""
    cells, limit = table.shape[1:]
    place, group, counts = torch.unique_consecutive(
        world * cells + cell, return_inverse=True, return_counts=True
    )
    most.scatter_reduce_(0, place // cells, counts, "amax")
    number = torch.arange(index.numel(), device=index.device) - (counts.cumsum(0) - counts)[group]
    fits = number < limit
    table[world[fits], cell[fits], number[fits]] = index[fits].to(torch.int32)
