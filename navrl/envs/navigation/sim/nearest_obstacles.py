"""The moving obstacles nearest to a drone: what it is told of them, and whether one is hit."""

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


class NearObstacles(NamedTuple):
    """The M nearest by horizontal distance, nearest first; rows that are not present are 0."""

    offset: (
        Tensor  # (3, M, N) metres from the drone to the middle; level with the drone for a column
    )
    velocity: Tensor  # (3, M, N) m/s
    radius_m: Tensor  # (M, N)
    half_height_m: Tensor  # (M, N)
    upright: Tensor  # (M, N) bool: a column, taller than the world
    present: Tensor  # (M, N) bool

    def touches(self, body_radius_m: float) -> Tensor:
        """Whether a drone of this radius and half height is in one of them, bool (N,)."""
        x, y, z = self.offset.unbind(0)
        reach_m = self.radius_m + body_radius_m
        beside = x * x + y * y <= reach_m * reach_m
        level = z.abs() <= self.half_height_m + body_radius_m
        hits = self.present & beside & level
        return hits.any(0)

    def gap_m(self) -> Tensor:
        """Distance (M, N) to the surfaces, 0 inside; FAR_M where nothing is."""
        x, y, z = self.offset.unbind(0)
        beside = ((x * x + y * y).sqrt() - self.radius_m).clamp_min(0.0)
        above = (z.abs() - self.half_height_m).clamp_min(0.0)
        return torch.where(self.present, (beside * beside + above * above).sqrt(), FAR_M)

    def centre_gap_m(self) -> Tensor:
        """Distance (M, N) to the middles less the radii, as the original has it; FAR_M where nothing is."""
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
    """The `count` nearest to position (3, N), those within the horizontal range_m."""
    place = obstacles.position
    x, y = place.x - position[0], place.y - position[1]
    square = x * x + y * y
    # Bits of a positive float32 are ordered as it is. With the index in its last bits, one minimum finds the
    # distance and whose it is, and the next one is the least above it: no sorting, which nothing vectorises.
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
    who = torch.where(present, chosen & ((1 << tag_bits) - 1), 0).to(torch.int64)
    return _rows(params, obstacles, position, who, present)


def _rows(
    params: MovingParams, obstacles: MovingObstacles, position: Tensor, who: Tensor, present: Tensor
) -> NearObstacles:
    """What is known of the obstacles `who` (M, N)."""

    def told(rows: Tensor) -> Tensor:
        return torch.where(present, rows, 0.0)

    column = present & is_column(params, who)
    x, y, z = (
        part.gather(0, who) - own
        for part, own in zip(obstacles.position, position.unbind(0), strict=True)
    )
    velocity = [told(part.gather(0, who)) for part in obstacles.velocity]
    half_height = torch.where(column, 0.5 * COLUMN_HEIGHT_M, 0.5 * BLOCK_HEIGHT_M)
    return NearObstacles(
        offset=torch.stack([told(x), told(y), torch.where(column, 0.0, told(z))]),
        velocity=torch.stack(velocity),
        radius_m=told(radius_m(params, who)),
        half_height_m=told(half_height),
        upright=column,
        present=present,
    )
