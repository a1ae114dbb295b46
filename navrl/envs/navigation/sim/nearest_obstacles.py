"""The moving obstacles nearest to a drone: their states as it observes them, and collisions with them."""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.navigation.sim.moving_obstacles import (
    BLOCK_HEIGHT_M,
    COLUMN_HEIGHT_M,
    MovingObstacles,
    MovingParams,
    is_column,
    radius_m,
)
from navrl.envs.navigation.sim.static_obstacles import FAR_M

_BEYOND = (1 << 31) - 1  # the largest int32: no obstacle
_LEAST_M = 1e-6  # smallest divisor


class NearObstacles(NamedTuple):
    """The M nearest by horizontal distance, nearest first; rows that are not present are 0."""

    offset: Tensor  # (3, M, N) metres from the drone to the middle; dz is 0 for a column
    velocity: Tensor  # (3, M, N) m/s
    radius_m: Tensor  # (M, N)
    half_height_m: Tensor  # (M, N)
    upright: Tensor  # (M, N) bool: a column, taller than the world
    present: Tensor  # (M, N) bool

    def touches(self, drone_radius_m: float) -> Tensor:
        """Return where a drone of this radius and half height touches an obstacle, bool (N,)."""
        x, y, z = self.offset.unbind(0)
        reach_m = self.radius_m + drone_radius_m
        beside = x * x + y * y <= reach_m * reach_m
        level = z.abs() <= self.half_height_m + drone_radius_m
        hits = self.present & beside & level
        return hits.any(0)

    def gap_m(self) -> Tensor:
        """Return the distance (M, N) to the surfaces, 0 inside; FAR_M where nothing is."""
        x, y, z = self.offset.unbind(0)
        beside = ((x * x + y * y).sqrt() - self.radius_m).clamp_min(0.0)
        above = (z.abs() - self.half_height_m).clamp_min(0.0)
        return torch.where(self.present, (beside * beside + above * above).sqrt(), FAR_M)

    def centre_gap_m(self) -> Tensor:
        """Return the distance (M, N) to the middles less the radii, as published; FAR_M where nothing is."""
        distance = self.offset.square().sum(0).sqrt()
        return torch.where(self.present, distance - self.radius_m, FAR_M)


def nearest(
    params: MovingParams,
    obstacles: MovingObstacles,
    position: Tensor,
    *,
    count: int,
    range_m: float,
) -> NearObstacles:
    """Return the `count` obstacles nearest to position (3, N), within the horizontal range_m."""
    place = obstacles.position
    x, y = place.x - position[0], place.y - position[1]
    square = x * x + y * y
    # The bits of positive float32 numbers have the order of the numbers. With the index in the last bits, one
    # minimum finds distance and index, and the next is the least above it: no sort, which is not vectorised.
    tag_bits = (params.count - 1).bit_length()
    index = torch.arange(params.count, device=x.device, dtype=torch.int32).unsqueeze(-1)
    order = (square.view(torch.int32) >> tag_bits << tag_bits) | index
    order = torch.where(square <= range_m * range_m, order, _BEYOND)
    found = []
    for _ in range(count):
        found.append(order.amin(0))
        order = torch.where(order > found[-1], order, _BEYOND)
    chosen = torch.stack(found)  # (M, N)
    present = chosen != _BEYOND
    index = torch.where(present, chosen & ((1 << tag_bits) - 1), 0).to(torch.int64)
    return _rows(params, obstacles, position, index, present)


def touches_in_flight(
    params: MovingParams,
    before: tuple[MovingObstacles, Tensor],
    after: tuple[MovingObstacles, Tensor],
    drone_radius_m: float,
) -> Tensor:
    """Return where a drone touches any obstacle between two places (3, N), bool (N,); all fly straight.

    The part of the flight in which the two are level is searched for where they are nearest.
    """
    (x, y, z), (x_was, y_was, z_was) = (
        [part - own for part, own in zip(obstacles.position, place.unbind(0), strict=True)]
        for obstacles, place in (after, before)
    )
    way_x, way_y, way_z = x - x_was, y - y_was, z - z_was
    index = torch.arange(params.count, device=x.device).unsqueeze(-1)
    half_m = 0.5 * BLOCK_HEIGHT_M + drone_radius_m
    # Parts of the flight, counted back from its end, so that the end itself is computed as touches() does.
    per_way = 1.0 / torch.where(way_z.abs() < _LEAST_M, _LEAST_M, way_z)
    middle, half = z * per_way, half_m * per_way.abs()
    column = is_column(params, index)
    first = torch.where(column, 0.0, (middle - half).clamp_min(0.0))
    last = torch.where(column, 1.0, (middle + half).clamp_max(1.0))
    square = (way_x * way_x + way_y * way_y).clamp_min(_LEAST_M * _LEAST_M)
    back = (x * way_x + y * way_y) / square
    back = torch.minimum(torch.maximum(back, first), last)
    x, y = x - back * way_x, y - back * way_y
    reach_m = radius_m(params, index) + drone_radius_m
    return ((first <= last) & (x * x + y * y <= reach_m * reach_m)).any(0)


def _rows(
    params: MovingParams,
    obstacles: MovingObstacles,
    position: Tensor,
    index: Tensor,
    present: Tensor,
) -> NearObstacles:
    """Return the rows of the obstacles with these indices (M, N)."""

    def masked(rows: Tensor) -> Tensor:
        return torch.where(present, rows, 0.0)

    column = present & is_column(params, index)
    x, y, z = (
        part.gather(0, index) - own
        for part, own in zip(obstacles.position, position.unbind(0), strict=True)
    )
    velocity = [masked(part.gather(0, index)) for part in obstacles.velocity]
    half_height = torch.where(column, 0.5 * COLUMN_HEIGHT_M, 0.5 * BLOCK_HEIGHT_M)
    return NearObstacles(
        offset=torch.stack([masked(x), masked(y), torch.where(column, 0.0, masked(z))]),
        velocity=torch.stack(velocity),
        radius_m=masked(radius_m(params, index)),
        half_height_m=masked(half_height),
        upright=column,
        present=present,
    )
