"""The default map: boxes at any angle, columns, walls and floating boxes, with no gap too narrow to pass."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from navrl.config.checks import require, require_number, require_whole
from navrl.envs.core.weights import Weights
from navrl.envs.navigation.maps.placement import Bounds, Placing, draw_shapes, place
from navrl.envs.navigation.sim.clearance import rectangle_gap_m2
from navrl.envs.navigation.sim.static_obstacles import (
    FAR_M,
    Boxes,
    Cylinders,
    Footprint,
    StaticObstacles,
    absent_boxes,
    absent_cylinders,
    is_present,
)


class _Row(NamedTuple):
    """The numbers of a shape, so that one formula makes all shapes."""

    length_m: Bounds  # diameter of a round shape
    width_m: Bounds
    bottom_m: Bounds
    tall_m: Bounds
    turn_rad: float  # largest turn
    is_round: bool


@dataclass(frozen=True, kw_only=True)
class Block:
    """A box: a wall if it is long and thin, and floating if its bottom is above the ground."""

    weight: float  # how often, relative to the other shapes
    length_m: Bounds
    width_m: Bounds
    bottom_m: Bounds
    tall_m: Bounds  # from bottom to top
    turned: bool  # at any angle; false: along the axes of the world

    def row(self) -> _Row:
        """Return the numbers of the shape."""
        turn_rad = math.pi if self.turned else 0.0
        return _Row(self.length_m, self.width_m, self.bottom_m, self.tall_m, turn_rad, False)


@dataclass(frozen=True, kw_only=True)
class Column:
    """An upright cylinder."""

    weight: float
    diameter_m: Bounds
    bottom_m: Bounds
    tall_m: Bounds

    def row(self) -> _Row:
        """Return the numbers of the shape."""
        return _Row(self.diameter_m, self.diameter_m, self.bottom_m, self.tall_m, 0.0, True)


@dataclass(frozen=True, kw_only=True)
class ForestMap:
    """Obstacles of several shapes in a square; two of them overlap, or are at least gap_m apart.

    Index n of the boxes or index n of the cylinders holds obstacle n; the other one is absent.
    """

    count: int
    half_side_m: float  # of the square that holds all obstacles
    gap_m: float
    shapes: Mapping[str, Block | Column]
    attempts: int

    def make(self, key: Tensor, count: Tensor) -> StaticObstacles:
        """Return the obstacles of the worlds with these keys, boxes and cylinders (G, count of the map)."""
        draws = draw_shapes(key, 6, self.count)
        names = tuple(self.shapes)
        weights = {name: self.shapes[name].weight for name in names}
        chosen = Weights(names=names, weights=weights, setting="shapes").choose(draws[0])
        rows = [self.shapes[name].row() for name in names]
        length_m, width_m, bottom_m, tall_m = (
            _between([getattr(row, name) for row in rows], chosen, draw)
            for name, draw in zip(_Row._fields[:4], draws[1:5], strict=True)
        )
        turns = [(0.0, row.turn_rad) for row in rows]
        yaw_rad = _between(turns, chosen, draws[5])
        is_round = _between([(float(row.is_round),) * 2 for row in rows], chosen, draws[0]) > 0.5
        halves = torch.stack([0.5 * length_m, 0.5 * width_m]).where(~is_round, 0.0)
        radius_m = (0.5 * length_m).where(is_round, 0.0)
        reach_m = halves.square().sum(0).sqrt() + radius_m  # from the middle to the farthest corner
        shapes_ = torch.stack([*halves, yaw_rad.cos(), yaw_rad.sin(), radius_m, reach_m])
        placing = Placing(self._locate, self._clash, self.attempts, "gap_m")
        x, y = place(key, count, shapes_, placing)
        return _sorted_by_kind(Footprint(x, y, *shapes_[:5]), is_round, bottom_m, bottom_m + tall_m)

    def _locate(self, draws: Tensor, shape: Tensor) -> tuple[Tensor, Tensor]:
        half_x, half_y, cos, sin, radius_m, _ = shape
        room_x = self.half_side_m - half_x * cos.abs() - half_y * sin.abs() - radius_m
        room_y = self.half_side_m - half_x * sin.abs() - half_y * cos.abs() - radius_m
        return (2.0 * draws[0] - 1.0) * room_x, (2.0 * draws[1] - 1.0) * room_y

    def _clash(
        self, x: Tensor, y: Tensor, shape: Tensor, xs: Tensor, ys: Tensor, shapes_: Tensor
    ) -> Tensor:
        """Return where the gap is too narrow; obstacles that overlap have none."""
        reach_m = shape[5] + shapes_[5] + self.gap_m
        near = (x - xs).square() + (y - ys).square() < reach_m.square()
        pairs = near.nonzero(as_tuple=True)  # one in twenty; only these need the exact gap
        first, second = (
            Footprint(*(field.expand(near.shape)[pairs] for field in fields))
            for fields in ((x, y, *shape[:5]), (xs, ys, *shapes_[:5]))
        )
        gap_m2 = rectangle_gap_m2(first, second)
        radii_m = first.radius_m + second.radius_m
        narrow = (gap_m2 > radii_m.square()) & (gap_m2 < (radii_m + self.gap_m).square())
        return near.index_put(pairs, narrow)

    def checked(self) -> Self:
        """Return self, or raise ConfigError for an impossible number."""
        require_whole("world.map.count", self.count, 1)
        require_whole("world.map.attempts", self.attempts, 1)
        require_number("world.map.gap_m", self.gap_m, least=0.0)
        usable = 0.0 < self.half_side_m < 0.1 * FAR_M
        expected = f"more than 0 and less than {0.1 * FAR_M:g}"
        require(usable, "world.map.half_side_m", self.half_side_m, expected)
        require(len(self.shapes) > 0, "world.map.shapes", self.shapes, "one shape or more")
        for name, shape in self.shapes.items():
            self._check_shape(name, shape)
        weights = [shape.weight for shape in self.shapes.values()]
        usable = min(weights) >= 0.0 and 0.0 < sum(weights) < math.inf
        require(usable, "world.map.shapes", weights, "weights of 0 or more, not all 0")
        return self

    def _check_shape(self, name: str, shape: Block | Column) -> None:
        row = shape.row()
        for option in ("length_m", "width_m", "tall_m", "bottom_m"):
            pair = getattr(row, option)
            least, words = (0.0, "0 <=") if option == "bottom_m" else (1e-6, "0 <")
            if len(pair) != 2 or not least <= pair[0] <= pair[1] < math.inf:
                written = "diameter_m" if row.is_round and option == "length_m" else option
                raise ValueError(
                    f"{written} of shape {name} = {pair}; expected [low, high] with {words} low <= high"
                )
        if math.hypot(row.length_m[1], row.width_m[1]) >= 2.0 * self.half_side_m:
            raise ValueError(
                f"shape {name} of up to {row.length_m[1]:g} m does not fit between sides "
                f"{2.0 * self.half_side_m:g} m apart; raise half_side_m"
            )


def _between(bounds: list[Bounds], chosen: Tensor, draw: Tensor) -> Tensor:
    """Return a number between the bounds of the chosen shape."""
    table = torch.tensor(bounds, dtype=torch.float32, device=draw.device)
    low, high = table[chosen.to(torch.int64)].unbind(-1)
    return low + (high - low) * draw


def _sorted_by_kind(
    footprint: Footprint, is_round: Tensor, bottom_m: Tensor, top_m: Tensor
) -> StaticObstacles:
    """Return the round shapes as cylinders, the others as boxes."""
    present, (worlds, count) = is_present(footprint.x), is_round.shape
    x, y, *sides, radius_m = footprint
    boxes, cylinders = (
        [torch.where(present & chosen, value, absent) for value, absent in zip(*pair, strict=True)]
        for chosen, *pair in (
            (~is_round, (x, y, *sides, bottom_m, top_m), absent_boxes(worlds, count, x.device)),
            (
                is_round,
                (x, y, radius_m, bottom_m, top_m),
                absent_cylinders(worlds, count, x.device),
            ),
        )
    )
    return StaticObstacles(Boxes(*boxes), Cylinders(*cylinders))
