"""Where episodes begin and what they fly to: a table of routes for every world, made when it is made."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from navrl.envs.core import random
from navrl.envs.navigation.maps.placement import Bounds, require
from navrl.envs.navigation.sim.clearance import clearance_m
from navrl.envs.navigation.sim.static_obstacles import Boxes, Cylinders, StaticObstacles, is_present

_ROUTES = 19  # what is drawn from the key of a world, beside the shapes and places of its obstacles
_DRAWS = 6  # per attempt
_BATCH = 8  # attempts at once


class Routes(NamedTuple):
    """Starts and goals (3, G, P)."""

    start: Tensor
    goal: Tensor


class RouteMaker(Protocol):
    """What makes routes."""

    def make(self, key: Tensor, obstacles: StaticObstacles, count: int) -> Routes:
        """`count` routes for each of the worlds with these keys, int64 (G,)."""

    def checked(self) -> Self:
        """Self, or a ValueError that says which number is impossible."""


@dataclass(frozen=True, kw_only=True)
class DrawnRoutes:
    """Routes drawn until they fit; a variant draws them."""

    z_m: Bounds  # heights of starts and goals
    distance_m: Bounds  # from start to goal
    clearance_m: float  # from the obstacles to start and goal, which are inside of none in any case
    attempts: int  # per route

    def draw(self, draws: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Starts and goals (3, ...) from six numbers (6, ...), and whether they are possible at all."""
        raise TypeError(f"{type(self).__name__} lacks draw(draws) -> (start, goal, possible)")

    def make(self, key: Tensor, obstacles: StaticObstacles, count: int) -> Routes:
        """Routes for each of the worlds; world by world, since only what is there is looked at."""
        route_key = random.mix(random.mix(key ^ _ROUTES).unsqueeze(1) ^ torch.arange(count).to(key))
        made = [
            self._search(route_key[world], _only_present(obstacles, world))
            for world in range(key.shape[0])
        ]
        return Routes(*(torch.stack(points, dim=1) for points in zip(*made, strict=True)))

    def _search(self, key: Tensor, obstacles: StaticObstacles) -> tuple[Tensor, Tensor]:
        """Start and goal (3, P) of the first attempt that fits, for each route of one world."""
        start = torch.zeros((3, key.shape[0]), device=key.device)
        goal, waiting = torch.zeros_like(start), torch.arange(key.shape[0], device=key.device)
        for tried in range(0, self.attempts, _BATCH):
            batch_key = random.mix(key[waiting] ^ tried)
            draws = random.uniform(batch_key, random.WORLD, _DRAWS * _BATCH)
            draws = draws.view(_DRAWS, _BATCH, -1).transpose(1, 2)
            starts, goals, possible = self.draw(draws)  # (3, W, A), (W, A)
            fits = self._fits(obstacles, starts, goals, possible)
            column = (~fits).to(torch.int64).cumprod(-1).sum(-1)  # the first that fits
            row = (column < _BATCH).nonzero().squeeze(1)
            start[:, waiting[row]] = starts[:, row, column[row]]
            goal[:, waiting[row]] = goals[:, row, column[row]]
            waiting = waiting[column == _BATCH]
            if waiting.numel() == 0:
                return start, goal
        raise ValueError(
            f"the world is too dense to spawn in: {waiting.numel()} of {key.shape[0]} routes with "
            f"clearance_m={self.clearance_m:g} and distance_m={list(self.distance_m)} were not found in "
            f"{self.attempts} attempts; lower clearance_m or the number of obstacles, or widen distance_m"
        )

    def _fits(
        self, obstacles: StaticObstacles, start: Tensor, goal: Tensor, possible: Tensor
    ) -> Tensor:
        distance_m = (goal - start).square().sum(0).sqrt()
        fits = possible & (distance_m >= self.distance_m[0]) & (distance_m <= self.distance_m[1])
        most_m = _outermost_m(obstacles) + self.clearance_m
        for points in (start, goal):  # the second is looked at only where the first is free
            near = fits & (points[:2].abs().amax(0) <= most_m)
            index = near.flatten().nonzero().squeeze(1)
            x, y, z = points.flatten(1)[:, index].unsqueeze(1)
            free_m = clearance_m(*obstacles, x, y, z)[0]
            free = (free_m >= self.clearance_m) & (free_m > 0.0)
            fits = fits.flatten().index_put((index,), free).view_as(fits)
        return fits

    def checked(self) -> Self:
        """Self, or a ValueError that says which number is impossible."""
        for name in ("z_m", "distance_m"):
            bounds = getattr(self, name)
            usable = len(bounds) == 2 and 0.0 <= bounds[0] <= bounds[1]
            require("world.routes", self, name, usable, "[low, high] with 0 <= low <= high")
        require("world.routes", self, "z_m", math.isfinite(self.z_m[1]), "a finite height")
        require(
            "world.routes", self, "clearance_m", 0.0 <= self.clearance_m < math.inf, "0 or more"
        )
        require("world.routes", self, "attempts", self.attempts >= 1, "1 or more")
        return self


@dataclass(frozen=True, kw_only=True)
class PerimeterRoutes(DrawnRoutes):
    """The original's training: start and goal each anywhere on the four sides of a square.

    It asks for no distance and no clearance: every fourth goal is on the side of its start.
    """

    half_side_m: float

    def draw(self, draws: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Two points of the perimeter."""
        start, goal = self._point(*draws[:3]), self._point(*draws[3:])
        return start, goal, torch.ones_like(draws[0], dtype=torch.bool)

    def _point(self, side_draw: Tensor, along_draw: Tensor, z_draw: Tensor) -> Tensor:
        side = (4.0 * side_draw).floor()
        along_m = (2.0 * along_draw - 1.0) * self.half_side_m
        edge_m = torch.where(side % 2.0 == 0.0, -self.half_side_m, self.half_side_m)
        upright = side < 2.0
        x, y = torch.where(upright, edge_m, along_m), torch.where(upright, along_m, edge_m)
        return torch.stack([x, y, _between(self.z_m, z_draw)])

    def checked(self) -> Self:
        """Self, or a ValueError that says which number is impossible."""
        require(
            "world.routes", self, "half_side_m", 0.0 < self.half_side_m < math.inf, "more than 0"
        )
        widest_m = math.sqrt(8.0) * self.half_side_m
        require(
            "world.routes",
            self,
            "distance_m",
            self.distance_m[0] < widest_m,
            f"a low below {widest_m:g}",
        )
        return super().checked()


@dataclass(frozen=True, kw_only=True)
class FreeRoutes(DrawnRoutes):
    """Start and goal anywhere in the free space of a rectangle; no distance is likelier than another.

    The goal is drawn around the start, so that a narrow range of distances costs no more attempts.
    """

    x_m: Bounds
    y_m: Bounds

    def draw(self, draws: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A point of the rectangle, and another one at a drawn distance and direction from it."""
        x, y = _between(self.x_m, draws[0]), _between(self.y_m, draws[1])
        z, goal_z = _between(self.z_m, draws[2]), _between(self.z_m, draws[3])
        distance_m, angle_rad = _between(self.distance_m, draws[4]), 2.0 * math.pi * draws[5]
        level_m2 = distance_m.square() - (goal_z - z).square()
        level_m = level_m2.clamp_min(0.0).sqrt()
        goal_x, goal_y = x + level_m * angle_rad.cos(), y + level_m * angle_rad.sin()
        inside = (goal_x >= self.x_m[0]) & (goal_x <= self.x_m[1])
        inside = inside & (goal_y >= self.y_m[0]) & (goal_y <= self.y_m[1])
        start, goal = torch.stack([x, y, z]), torch.stack([goal_x, goal_y, goal_z])
        return start, goal, inside & (level_m2 >= 0.0)

    def checked(self) -> Self:
        """Self, or a ValueError that says which number is impossible."""
        for name in ("x_m", "y_m"):
            bounds = getattr(self, name)
            usable = len(bounds) == 2 and -math.inf < bounds[0] < bounds[1] < math.inf
            require("world.routes", self, name, usable, "[low, high] with low < high")
        require("world.routes", self, "distance_m", self.distance_m[0] > 0.0, "more than 0")
        widest_m = math.hypot(self.x_m[1] - self.x_m[0], self.y_m[1] - self.y_m[0])
        usable = self.distance_m[1] <= widest_m
        require(
            "world.routes",
            self,
            "distance_m",
            usable,
            f"at most {widest_m:g}, the diagonal of x_m and y_m",
        )
        return super().checked()


@dataclass(frozen=True, kw_only=True)
class CrossingRoutes:
    """The original's evaluation: parallel flights from north to south, evenly spread over the width."""

    half_width_m: float
    half_length_m: float
    z_m: float

    def make(self, key: Tensor, obstacles: StaticObstacles, count: int) -> Routes:
        """The same routes in every world; the last start is one place short of the edge, as there."""
        number = torch.arange(count, device=key.device, dtype=torch.float32)
        start_x = (number / count - 0.5) * (2.0 * self.half_width_m)
        goal_x = (number / max(count - 1, 1) - 0.5) * (2.0 * self.half_width_m)
        y, z = torch.full_like(number, self.half_length_m), torch.full_like(number, self.z_m)
        size = (3, key.shape[0], count)
        start = torch.stack([start_x, y, z]).unsqueeze(1).expand(size).contiguous()
        goal = torch.stack([goal_x, -y, z]).unsqueeze(1).expand(size).contiguous()
        for name, points in (("start", start), ("goal", goal)):
            inside = int((clearance_m(*obstacles, *points) <= 0.0).sum())
            if inside > 0:
                raise ValueError(
                    f"the {name} of {inside} of {points[0].numel()} routes is inside of an "
                    "obstacle; raise half_length_m, so that they lie beyond the obstacles"
                )
        return Routes(start, goal)

    def checked(self) -> Self:
        """Self, or a ValueError that says which number is impossible."""
        for name in ("half_width_m", "half_length_m", "z_m"):
            require("world.routes", self, name, 0.0 < getattr(self, name) < math.inf, "more than 0")
        return self


def _outermost_m(obstacles: StaticObstacles) -> Tensor:
    """No obstacle is farther east, west, north or south; 0 where there is none."""
    boxes, cylinders = obstacles
    corner_m = boxes.half_x_m + boxes.half_y_m  # at least as far as a corner is from the middle
    reaches = [
        torch.maximum(kind.x.abs(), kind.y.abs()) + reach_m
        for kind, reach_m in ((boxes, corner_m), (cylinders, cylinders.radius_m))
    ]
    return torch.cat([reach.flatten() for reach in reaches] + [corner_m.new_zeros(1)]).amax()


def _between(bounds: Bounds, draw: Tensor) -> Tensor:
    return bounds[0] + (bounds[1] - bounds[0]) * draw


def _only_present(obstacles: StaticObstacles, world: int) -> StaticObstacles:
    """What is there in one world, fields (1, B)."""
    boxes, cylinders = (
        [field[world, is_present(kind.x[world])].unsqueeze(0) for field in kind]
        for kind in obstacles
    )
    return StaticObstacles(Boxes(*boxes), Cylinders(*cylinders))
