"""The map of the published NavRL: 350 upright pillars on a lattice, on flat ground.

Two things differ from the published map. The gap of two pillars is measured between them, in either order,
and not from corner to corner with the size of the newer one. Where pillars overlap the taller one stands,
while the original let the later one cut off the earlier.
"""

import itertools
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from navrl.config.checks import require, require_number, require_whole
from navrl.envs.navigation.maps.placement import Bounds, Placing, draw_shapes, place
from navrl.envs.navigation.sim.static_obstacles import (
    Boxes,
    StaticObstacles,
    absent_cylinders,
    is_present,
)


@dataclass(frozen=True, kw_only=True)
class PillarMap:
    """Pillars of whole cells of a height field with vertices at -half_side_m + i * cell_m.

    A pillar of n cells raises n vertices, and its walls are as far apart as the outer of these.
    """

    count: int
    half_side_m: float
    cell_m: float
    lattice_cells: int  # every pillar begins at a multiple of it
    sizes_cells: tuple[int, ...]  # width and length are one of these each, equally likely
    height_edges_m: tuple[float, ...]  # uniform between neighbouring edges, ...
    height_weights: tuple[float, ...]  # ... with these weights
    height_step_m: float  # heights are rounded to it
    forbidden_gap_cells: Bounds  # both included; nearer pillars count as one
    attempts: int

    def make(self, key: Tensor, count: Tensor) -> StaticObstacles:
        """Return the obstacles of the worlds with these keys, boxes (G, count of the map), no cylinders."""
        width_draw, length_draw, height_draw = draw_shapes(key, 3, self.count)
        sizes = torch.tensor(self.sizes_cells, dtype=torch.float32, device=key.device)
        width, length = (
            sizes[(draw * len(self.sizes_cells)).to(torch.int64)]
            for draw in (width_draw, length_draw)
        )
        placing = Placing(self._locate, self._clash, self.attempts, "forbidden_gap_cells")
        column, row = place(key, count, torch.stack([width, length]), placing)
        there = is_present(column)
        zero = torch.zeros_like(column)
        boxes = Boxes(
            x=torch.where(there, self._middle_m(column, width), column),
            y=torch.where(there, self._middle_m(row, length), row),
            half_x_m=torch.where(there, 0.5 * (width - 1.0) * self.cell_m, 0.0),
            half_y_m=torch.where(there, 0.5 * (length - 1.0) * self.cell_m, 0.0),
            cos_yaw=zero + 1.0,
            sin_yaw=zero,
            bottom_m=zero,
            top_m=torch.where(there, self._height_m(height_draw), 0.0),
        )
        return StaticObstacles(boxes, absent_cylinders(key.shape[0], 0, key.device))

    @property
    def _vertices(self) -> int:
        """Return the number of vertices of the height field in a row."""
        return round(2.0 * self.half_side_m / self.cell_m) + 1

    def _middle_m(self, first: Tensor, cells: Tensor) -> Tensor:
        """Return the middle of the walls of a pillar whose first raised vertex is this."""
        return (first + 0.5 * (cells - 1.0)) * self.cell_m - self.half_side_m

    def _height_m(self, draw: Tensor) -> Tensor:
        height_m, below = torch.full_like(draw, self.height_edges_m[0]), 0.0
        total = sum(self.height_weights)
        pairs = zip(itertools.pairwise(self.height_edges_m), self.height_weights, strict=True)
        for (low_m, high_m), weight in pairs:
            share = max(weight / total, 1e-12)  # a part that never occurs is skipped at once
            height_m = height_m + (high_m - low_m) * ((draw - below) / share).clamp(0.0, 1.0)
            below += weight / total
        return (height_m / self.height_step_m).round() * self.height_step_m

    def _locate(self, draws: Tensor, shape: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first vertices of the attempts; the whole pillar fits into the field."""
        starts = ((self._vertices - shape) / self.lattice_cells).ceil()  # (2, W, 1)
        column, row = ((draws * starts).floor() * self.lattice_cells).unbind()
        return column, row

    def _clash(
        self,
        column: Tensor,
        row: Tensor,
        shape: Tensor,
        columns: Tensor,
        rows: Tensor,
        shapes: Tensor,
    ) -> Tensor:
        """Return where the gap is forbidden; pillars that touch or overlap have none."""
        gap_x = _interval_gap(column, shape[0], columns, shapes[0])
        gap_y = _interval_gap(row, shape[1], rows, shapes[1])
        gap2 = gap_x.square() + gap_y.square()
        low, high = self.forbidden_gap_cells
        return (gap2 >= low**2) & (gap2 <= high**2)

    def checked(self) -> Self:
        """Return self, or raise ConfigError for an impossible number."""
        for name in ("count", "lattice_cells", "attempts"):
            require_whole(f"world.map.{name}", getattr(self, name), 1)
        for name in ("half_side_m", "cell_m", "height_step_m"):
            require_number(f"world.map.{name}", getattr(self, name), above=0.0)
        sizes, edges, weights = self.sizes_cells, self.height_edges_m, self.height_weights
        usable = len(sizes) > 0 and min(sizes) >= 2 and max(sizes) < self._vertices
        expected = "numbers of 2 or more that fit between the sides"
        require(usable, "world.map.sizes_cells", sizes, expected)
        usable = len(edges) >= 2 and edges[0] > 0.0 and list(edges) == sorted(edges)
        expected = "two or more rising heights above 0"
        require(usable, "world.map.height_edges_m", edges, expected)
        usable = len(weights) == len(edges) - 1 and min(weights) >= 0.0 and sum(weights) > 0.0
        expected = "a weight of 0 or more between each two edges"
        require(usable, "world.map.height_weights", weights, expected)
        gap = self.forbidden_gap_cells
        usable = len(gap) == 2 and 0.0 < gap[0] <= gap[1]
        expected = "[low, high] with 0 < low <= high"
        require(usable, "world.map.forbidden_gap_cells", gap, expected)
        return self


def _interval_gap(first: Tensor, cells: Tensor, firsts: Tensor, more_cells: Tensor) -> Tensor:
    """Return the cells between two intervals, 0 where they touch or overlap."""
    return torch.maximum(firsts - first - cells, first - firsts - more_cells).clamp_min(0.0)
