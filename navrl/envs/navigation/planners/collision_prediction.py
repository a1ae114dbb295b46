"""Prediction of collisions: whether a commanded velocity leads into something, and how soon.

Seen from above, a drone is a point among discs at rest or on straight courses; the radius of a disc includes
the drone's own. A drone does not fly a command at once, and that decides whether it can still avoid what is
near: without `response_s` a shield prevents less than half as many collisions.
"""

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.config.checks import require, require_number, require_whole
from navrl.envs.navigation.planners.base import Perception
from navrl.envs.navigation.sim.lidar import Lidar
from navrl.envs.navigation.sim.static_obstacles import FAR_M

_GROUND_M = 0.05  # beams that end below this height meet the ground, which no drone flies around
_LEAST_GAP_M2 = 1e-3  # of squares; closer counts as this close, so that nothing is divided by 0
_LEAST_MPS = 1e-6  # slower, a velocity has no direction


class Hazards(NamedTuple):
    """K discs, fields (K, N); an absent one is at FAR_M."""

    x: Tensor  # metres from the drone
    y: Tensor
    velocity_x: Tensor  # m/s
    velocity_y: Tensor
    radius_m: Tensor


@dataclass(frozen=True, kw_only=True)
class MovingPrediction:
    """The options of the prediction for moving obstacles: how far ahead, and with which margin."""

    horizons_s: tuple[float, ...]  # from the nearest to the farthest
    response_s: float  # time constant of the drone's velocity, 0: it flies a command at once
    moving_margin_m: float  # added to a moving obstacle's radius: the drone's radius and a reserve

    def __post_init__(self) -> None:
        """Raise ConfigError for impossible options."""
        horizons = tuple(self.horizons_s)
        ordered = bool(horizons) and min(horizons) > 0.0 and list(horizons) == sorted(horizons)
        expected = "times of more than 0, the nearest first"
        require(ordered, "prediction.horizons_s", horizons, expected)
        for field in fields(self):
            if field.name != "horizons_s":
                value = getattr(self, field.name)
                require_number(f"prediction.{field.name}", value, least=0.0)

    def moving_hazards(self, perception: Perception, climb_mps: Tensor) -> Hazards:
        """Return a disc for each moving obstacle.

        It is absent unless a drone with this vertical speed (N,) is level with it within the horizon.
        """
        level = moving_level(perception, self.moving_margin_m, climb_mps, self.horizons_s[-1])
        x, y, _ = perception.near_offset.unbind(0)
        velocity_x, velocity_y, _ = perception.near_velocity.unbind(0)
        return Hazards(
            x=torch.where(level, x, FAR_M),
            y=torch.where(level, y, FAR_M),
            velocity_x=torch.where(level, velocity_x, 0.0),
            velocity_y=torch.where(level, velocity_y, 0.0),
            radius_m=perception.near_radius_m + self.moving_margin_m,
        )

    def kept_part(self, horizon_s: float) -> float:
        """Return the part of its current velocity in a drone's mean velocity until the horizon.

        Its velocity nears the command exponentially, so it is then exactly where a constant flight at the
        mean velocity ends.
        """
        if self.response_s == 0.0:
            return 0.0
        return self.response_s / horizon_s * -math.expm1(-horizon_s / self.response_s)

    def danger_per_s(
        self, hazards: Hazards, perception: Perception, command_x: Tensor, command_y: Tensor
    ) -> Tensor:
        """Return 1 / (seconds to a collision) under commands (..., N), 0 for none within the horizons."""
        worst = torch.zeros_like(command_x)
        for horizon_s in self.horizons_s:
            kept = self.kept_part(horizon_s)
            mean_x = (1.0 - kept) * command_x + kept * perception.velocity[0]
            mean_y = (1.0 - kept) * command_y + kept * perception.velocity[1]
            urgency = urgency_per_s(hazards, mean_x, mean_y)
            worst = torch.maximum(worst, torch.where(urgency * horizon_s > 1.0, urgency, 0.0))
        return worst


@dataclass(frozen=True, kw_only=True)
class CollisionPrediction(MovingPrediction):
    """The options of the prediction for what beams meet, too, seen from above."""

    static_radius_m: float  # disc at the end of a beam: the drone's radius and half a gap of beams
    level_m: float  # the lidar's points farther above or below do not count

    def hazards(self, lidar: Lidar, perception: Perception, climb_mps: Tensor) -> Hazards:
        """Return a disc for each beam that meets something level, then one for each moving obstacle."""
        along_x, along_y, distance = static_points(lidar, perception, self.level_m)
        still = torch.zeros_like(distance)
        beams = Hazards(
            distance * along_x, distance * along_y, still, still, still + self.static_radius_m
        )
        moving = self.moving_hazards(perception, climb_mps)
        return Hazards(*map(torch.cat, zip(beams, moving, strict=True)))


class Candidates(NamedTuple):
    """C velocities in the plane, fields (C, N); the first is the wanted one."""

    x: Tensor
    y: Tensor

    def cheapest(self, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return the velocity (N,) of the least cost (C, N); the first of several."""
        chosen = cost.argmin(0, keepdim=True)
        return self.x.gather(0, chosen)[0], self.y.gather(0, chosen)[0]


@dataclass(frozen=True)
class VelocityFan:
    """The velocities to choose from: all headings at all speeds, the wanted velocity, and a stop."""

    headings: int
    speeds_mps: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raise ConfigError for a fan in which there is nothing to choose."""
        require_whole("headings", self.headings, 1)
        usable = bool(self.speeds_mps) and all(0.0 < mps < math.inf for mps in self.speeds_mps)
        require(usable, "speeds_mps", list(self.speeds_mps), "one or more numbers above 0")

    def around(self, wanted_x: Tensor, wanted_y: Tensor) -> Candidates:
        """Return the wanted velocity (N,), the headings beginning with its own, and the stop."""
        speed = (wanted_x.square() + wanted_y.square()).sqrt()
        moving = speed > _LEAST_MPS
        cos = torch.where(moving, wanted_x / speed.clamp_min(_LEAST_MPS), 1.0)
        sin = torch.where(moving, wanted_y / speed.clamp_min(_LEAST_MPS), 0.0)
        turns = [2.0 * math.pi * number / self.headings for number in range(self.headings)]
        ahead = [mps * math.cos(turn) for mps in self.speeds_mps for turn in turns]
        left = [mps * math.sin(turn) for mps in self.speeds_mps for turn in turns]
        ahead_mps = wanted_x.new_tensor([*ahead, 0.0]).unsqueeze(-1)
        left_mps = wanted_x.new_tensor([*left, 0.0]).unsqueeze(-1)
        return Candidates(
            x=torch.cat([wanted_x.unsqueeze(0), cos * ahead_mps - sin * left_mps]),
            y=torch.cat([wanted_y.unsqueeze(0), sin * ahead_mps + cos * left_mps]),
        )


def static_points(
    lidar: Lidar, perception: Perception, level_m: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return direction and distance of every beam's nearest end within level_m of the drone's height.

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
    """Return the mask (M, N) of moving obstacles that are level with the drone at some time until then."""
    now_m = perception.near_offset[2]
    then_m = now_m + (perception.near_velocity[2] - climb_mps) * time_s
    half_m = perception.near_half_height_m + reach_m
    level = (torch.minimum(now_m, then_m) <= half_m) & (torch.maximum(now_m, then_m) >= -half_m)
    return perception.near_present & (level | perception.near_upright)


def urgency_per_s(hazards: Hazards, velocity_x: Tensor, velocity_y: Tensor) -> Tensor:
    """Return 1 / (seconds to the first collision) of straight flights (..., N), 0 where there is none.

    A drone inside a disc collides at once if it flies further in, and not at all on its way out.
    """
    fast_x = velocity_x.unsqueeze(-2) - hazards.velocity_x
    fast_y = velocity_y.unsqueeze(-2) - hazards.velocity_y
    closing = hazards.x * fast_x + hazards.y * fast_y
    gap = hazards.x.square() + hazards.y.square() - hazards.radius_m.square()
    # Of a t^2 - 2 b t + c = 0 the first root is t = c / (b + sqrt(b^2 - a c)), so 1 / t needs no division.
    root = closing.square() - (fast_x.square() + fast_y.square()) * gap
    inverse = (closing + root.clamp_min(0.0).sqrt()) * (1.0 / gap.clamp_min(_LEAST_GAP_M2))
    return torch.where((closing > 0.0) & (root >= 0.0), inverse, 0.0).amax(-2)
