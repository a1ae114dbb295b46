"""What a drone could hit, seen from above: discs around it, at rest or on straight courses.

A planner moves a point among them, so the radius of a disc includes the drone's own.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception
from navrl.envs.navigation.sim.lidar import Lidar
from navrl.envs.navigation.sim.obstacles import FAR_M

_GROUND_M = 0.05  # what a beam meets below this height is the ground, which nobody flies around
_LEAST_GAP_M2 = 1e-3  # of squares; closer counts as this close, so that nothing is divided by 0


class Hazards(NamedTuple):
    """K discs, fields (K, N); one that is not there is at FAR_M."""

    x: Tensor  # metres from the drone
    y: Tensor
    velocity_x: Tensor  # m/s
    velocity_y: Tensor
    radius_m: Tensor


def static_points(
    lidar: Lidar, perception: Perception, level_m: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Of every beam the nearest end point within level_m of the drone's height: direction and distance.

    Three tensors (beams, N): the direction's cosine and sine in the world, and metres along the ground,
    FAR_M where the beam is free.
    """
    ranges, height_m = perception.ranges, perception.position[2]
    distance = torch.full_like(ranges[:, 0], FAR_M)
    for ring, elevation_rad in enumerate(lidar.elevations_rad):
        slant_m = ranges[:, ring]
        rise_m = slant_m * math.sin(elevation_rad)
        solid = (slant_m < lidar.range_m) & (height_m + rise_m > _GROUND_M)
        met = solid & (rise_m.abs() <= level_m)
        distance = torch.minimum(
            distance, torch.where(met, slant_m * math.cos(elevation_rad), FAR_M)
        )
    cos_heading, sin_heading = perception.heading.unbind(0)
    cos = ranges.new_tensor([math.cos(azimuth) for azimuth in lidar.azimuths_rad]).unsqueeze(-1)
    sin = ranges.new_tensor([math.sin(azimuth) for azimuth in lidar.azimuths_rad]).unsqueeze(-1)
    along_x = cos_heading * cos - sin_heading * sin
    along_y = sin_heading * cos + cos_heading * sin
    return along_x, along_y, distance


def moving_level(
    perception: Perception, reach_m: float, climb_mps: Tensor, time_s: float
) -> Tensor:
    """Which moving obstacles will be level with the drone at some time until then, bool (M, N)."""
    now_m = perception.near_offset[2]
    then_m = now_m + (perception.near_velocity[2] - climb_mps) * time_s
    half_m = perception.near_half_height_m + reach_m
    level = (torch.minimum(now_m, then_m) <= half_m) & (torch.maximum(now_m, then_m) >= -half_m)
    return perception.near_present & (level | perception.near_upright)


def urgency_per_s(hazards: Hazards, velocity_x: Tensor, velocity_y: Tensor) -> Tensor:
    """1 / (seconds to the first collision) of straight flights (..., N), 0 where there is none.

    Who is in a disc already collides at once if it flies further in, and not at all on its way out.
    """
    fast_x = velocity_x.unsqueeze(-2) - hazards.velocity_x
    fast_y = velocity_y.unsqueeze(-2) - hazards.velocity_y
    closing = hazards.x * fast_x + hazards.y * fast_y
    gap = hazards.x.square() + hazards.y.square() - hazards.radius_m.square()
    # Of a t^2 - 2 b t + c = 0 the first root is t = c / (b + sqrt(b^2 - a c)), so 1 / t needs no division.
    root = closing.square() - (fast_x.square() + fast_y.square()) * gap
    inverse = (closing + root.clamp_min(0.0).sqrt()) * (1.0 / gap.clamp_min(_LEAST_GAP_M2))
    return torch.where((closing > 0.0) & (root >= 0.0), inverse, 0.0).amax(-2)
