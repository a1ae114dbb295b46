"""Routes of episodes: starts and goals, a table of them for every world."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from navrl.config.checks import require, require_number, require_whole
from navrl.envs.core import random
from navrl.envs.navigation.maps.placement import Bounds
from navrl.envs.navigation.sim.clearance import clearance_m
from navrl.envs.navigation.sim.static_obstacles import Boxes, Cylinders, StaticObstacles, is_present

_ROUTES = 19  # stream of the key of a world, beside those of the shapes and places of its obstacles
_DRAWS = 6  # per attempt
_BATCH = 8  # attempts at once


class Routes(NamedTuple):
    """Starts and goals (3, G, P)."""

    start: Tensor
    goal: Tensor


@dataclass(frozen=True, kw_only=True)
class RandomRoutes:
    """The base class of routes that are drawn until they fit."""

    z_m: Bounds  # heights of starts and goals
    distance_m: Bounds  # from start to goal
    clearance_m: float  # from the obstacles to start and goal, which are never inside one
    attempts: int  # per route

    def draw(self, draws: Tensor, of_route: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return starts and goals (3, ...) from numbers (6, ...), and which of them are possible.

        `of_route` (...) is one more number, the same in all attempts of a route.
        """
        raise TypeError(
            f"{type(self).__name__} lacks draw(draws, of_route) -> (start, goal, possible)"
        )

    def make(self, key: Tensor, obstacles: StaticObstacles, count: int) -> Routes:
        """Return `count` routes for each of the worlds with these keys, int64 (G,)."""
        route_key = random.mix(random.mix(key ^ _ROUTES).unsqueeze(1) ^ torch.arange(count).to(key))
        made = [
            self._search(route_key[world], _only_present(obstacles, world))
            for world in range(key.shape[0])
        ]
        return Routes(*(torch.stack(points, dim=1) for points in zip(*made, strict=True)))

    def _search(self, key: Tensor, obstacles: StaticObstacles) -> tuple[Tensor, Tensor]:
        """Return start and goal (3, P) of the first attempt that fits, for each route of one world."""
        start = torch.zeros((3, key.shape[0]), device=key.device)
        goal, waiting = torch.zeros_like(start), torch.arange(key.shape[0], device=key.device)
        of_route = random.uniform(key, random.WORLD, 1)[0]
        for tried in range(0, self.attempts, _BATCH):
            batch_key = random.mix(key[waiting] ^ tried)
            draws = random.uniform(batch_key, random.WORLD, _DRAWS * _BATCH)
            draws = draws.view(_DRAWS, _BATCH, -1).transpose(1, 2)
            last = of_route[waiting].unsqueeze(1).expand(-1, _BATCH)
            starts, goals, possible = self.draw(draws, last)  # (3, W, A), (W, A)
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
        """Return self, or raise ConfigError for an impossible number."""
        for name in ("z_m", "distance_m"):
            bounds = getattr(self, name)
            usable = len(bounds) == 2 and 0.0 <= bounds[0] <= bounds[1]
            require(usable, f"world.routes.{name}", bounds, "[low, high] with 0 <= low <= high")
        require(math.isfinite(self.z_m[1]), "world.routes.z_m", self.z_m, "a finite height")
        require_number("world.routes.clearance_m", self.clearance_m, least=0.0)
        require_whole("world.routes.attempts", self.attempts, 1)
        return self


@dataclass(frozen=True, kw_only=True)
class PerimeterRoutes(RandomRoutes):
    """Routes of the published training: start and goal each anywhere on the four sides of a square.

    Without limits of distance and clearance every fourth goal is on the side of its start.
    """

    half_side_m: float

    def draw(self, draws: Tensor, of_route: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return two points of the perimeter."""
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
        """Return self, or raise ConfigError for an impossible number."""
        require_number("world.routes.half_side_m", self.half_side_m, above=0.0)
        widest_m = math.sqrt(8.0) * self.half_side_m
        usable, expected = self.distance_m[0] < widest_m, f"a low below {widest_m:g}"
        require(usable, "world.routes.distance_m", self.distance_m, expected)
        return super().checked()


@dataclass(frozen=True, kw_only=True)
class FreeRoutes(RandomRoutes):
    """Routes with start and goal in the free space of a rectangle, and uniform distances.

    The distance is drawn once for a route, so that no distance is rarer because fewer of its attempts fit.
    Directions are uniform among those in which the rectangle is long enough, starts among those whose goal is
    inside.
    """

    x_m: Bounds
    y_m: Bounds

    def draw(self, draws: Tensor, of_route: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return a point of the rectangle, and another at the route's distance from it."""
        z, goal_z = _between(self.z_m, draws[2]), _between(self.z_m, draws[3])
        distance_m = _between(self.distance_m, of_route)
        level_m2 = distance_m.square() - (goal_z - z).square()
        level_m = level_m2.clamp_min(0.0).sqrt()
        wide_m, deep_m = self.x_m[1] - self.x_m[0], self.y_m[1] - self.y_m[0]
        # The steepest and the flattest direction of a quarter in which both points are inside.
        low = (wide_m / level_m).clamp_max(1.0).acos()
        high = (deep_m / level_m).clamp_max(1.0).asin()
        angle_rad = low + (high - low) * draws[4]
        quarter = (4.0 * draws[5]).floor()
        east = level_m * torch.where(quarter % 2.0 == 0.0, angle_rad.cos(), -angle_rad.cos())
        north = level_m * torch.where(quarter < 2.0, angle_rad.sin(), -angle_rad.sin())
        x, goal_x = _apart(self.x_m, east, draws[0])
        y, goal_y = _apart(self.y_m, north, draws[1])
        start, goal = torch.stack([x, y, z]), torch.stack([goal_x, goal_y, goal_z])
        return start, goal, (level_m2 >= 0.0) & (low <= high)

    def checked(self) -> Self:
        """Return self, or raise ConfigError for an impossible number."""
        for name in ("x_m", "y_m"):
            bounds = getattr(self, name)
            usable = len(bounds) == 2 and -math.inf < bounds[0] < bounds[1] < math.inf
            require(usable, f"world.routes.{name}", bounds, "[low, high] with low < high")
        widest_m = math.hypot(self.x_m[1] - self.x_m[0], self.y_m[1] - self.y_m[0])
        usable = self.distance_m[0] > 0.0 and self.distance_m[1] <= widest_m
        expected = f"more than 0 and at most {widest_m:g}, the diagonal of x_m and y_m"
        require(usable, "world.routes.distance_m", self.distance_m, expected)
        return super().checked()


def _outermost_m(obstacles: StaticObstacles) -> Tensor:
    """No obstacle is farther east, west, north or south; 0 where there is none."""
    boxes, cylinders = obstacles
    corner_m = boxes.half_x_m + boxes.half_y_m  # at least as far as a corner is from the middle
    reaches = [
        torch.maximum(kind.x.abs(), kind.y.abs()) + reach_m
        for kind, reach_m in ((boxes, corner_m), (cylinders, cylinders.radius_m))
    ]
    return torch.cat([reach.flatten() for reach in reaches] + [corner_m.new_zeros(1)]).amax()


def _apart(bounds: Bounds, way_m: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
    """Return two points so far apart between the bounds, the middle of them uniform."""
    low, high = bounds
    room_m = (high - low - way_m.abs()).clamp_min(0.0)
    first = low + room_m * draw + (-way_m).clamp_min(0.0)
    return first.clamp(low, high), (first + way_m).clamp(low, high)


def _between(bounds: Bounds, draw: Tensor) -> Tensor:
    return bounds[0] + (bounds[1] - bounds[0]) * draw


def _only_present(obstacles: StaticObstacles, world: int) -> StaticObstacles:
    """Return the present obstacles of one world, fields (1, B)."""
    boxes, cylinders = (
        [field[world, is_present(kind.x[world])].unsqueeze(0) for field in kind]
        for kind in obstacles
    )
    return StaticObstacles(Boxes(*boxes), Cylinders(*cylinders))
