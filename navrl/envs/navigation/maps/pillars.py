"""The original's map: 350 upright pillars on a lattice, on flat ground without other features.

Two things differ from it. The gap between two pillars is measured between them, whichever came first,
and not from corner to corner with the size of the newer one. And where pillars overlap the taller one
stands, where the original let the later one cut off the earlier.
"""

import itertools
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from navrl.envs.navigation.maps.placement import (
    Bounds,
    Placing,
    draw_shapes,
    place,
    require,
)
from navrl.envs.navigation.sim.static_obstacles import (
    Boxes,
    StaticObstacles,
    absent_cylinders,
    is_present,
)


@dataclass(frozen=True, kw_only=True)
class PillarMap:
    """Pillars of whole cells of a height field whose vertices lie at -half_side_m + i * cell_m.

    A pillar of n cells raises n vertices, and its walls are as far apart as the outer of these.
    """

    count: int
    half_side_m: float
    cell_m: float
    lattice_cells: int  # every pillar begins at a multiple of it
    sizes_cells: tuple[int, ...]  # width and length are one of these each, equally likely
    height_edges_m: tuple[float, ...]  # evenly spread between neighbouring edges, ...
    height_weights: tuple[float, ...]  # ... and so often between each two of them
    height_step_m: float  # heights are rounded to it
    forbidden_gap_cells: Bounds  # both included; nearer pillars are as good as one
    attempts: int

    def make(self, key: Tensor, count: Tensor) -> StaticObstacles:
        """The worlds with these keys, boxes (G, count of the map) and no cylinders."""
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
        """Vertices of the height field in a row."""
        return round(2.0 * self.half_side_m / self.cell_m) + 1

    def _middle_m(self, first: Tensor, cells: Tensor) -> Tensor:
        """The middle of the walls of a pillar that raises this vertex first."""
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

    def _locate(self, draws: Tensor, body: Tensor) -> tuple[Tensor, Tensor]:
        """The vertices that the attempts raise first; the whole pillar fits into the field."""
        starts = ((self._vertices - body) / self.lattice_cells).ceil()  # (2, W, 1)
        column, row = ((draws * starts).floor() * self.lattice_cells).unbind()
        return column, row

    def _clash(
        self,
        column: Tensor,
        row: Tensor,
        body: Tensor,
        columns: Tensor,
        rows: Tensor,
        bodies: Tensor,
    ) -> Tensor:
        """Whether the gap is forbidden; pillars that touch or overlap have none."""
        gap_x = _interval_gap(column, body[0], columns, bodies[0])
        gap_y = _interval_gap(row, body[1], rows, bodies[1])
        gap2 = gap_x.square() + gap_y.square()
        low, high = self.forbidden_gap_cells
        return (gap2 >= low**2) & (gap2 <= high**2)

    def checked(self) -> Self:
        """Self, or a ValueError that says which number is impossible."""
        require("world.map", self, "count", self.count >= 1, "1 or more")
        for name in ("half_side_m", "cell_m", "lattice_cells", "height_step_m", "attempts"):
            require("world.map", self, name, getattr(self, name) > 0, "more than 0")
        sizes = self.sizes_cells
        fits = len(sizes) > 0 and min(sizes) >= 2 and max(sizes) < self._vertices
        require(
            "world.map",
            self,
            "sizes_cells",
            fits,
            "numbers of 2 or more that fit between the sides",
        )
        edges = self.height_edges_m
        rising = len(edges) >= 2 and edges[0] > 0.0 and list(edges) == sorted(edges)
        require("world.map", self, "height_edges_m", rising, "two or more rising heights above 0")
        weights = self.height_weights
        usable = len(weights) == len(edges) - 1 and min(weights) >= 0.0 and sum(weights) > 0.0
        require(
            "world.map",
            self,
            "height_weights",
            usable,
            "a weight of 0 or more between each two edges",
        )
        gap = self.forbidden_gap_cells
        usable = len(gap) == 2 and 0.0 < gap[0] <= gap[1]
        require(
            "world.map", self, "forbidden_gap_cells", usable, "[low, high] with 0 < low <= high"
        )
        return self


def _interval_gap(first: Tensor, cells: Tensor, firsts: Tensor, more_cells: Tensor) -> Tensor:
    """Cells between two intervals, 0 where they touch or overlap."""
    return torch.maximum(firsts - first - cells, first - firsts - more_cells).clamp_min(0.0)
