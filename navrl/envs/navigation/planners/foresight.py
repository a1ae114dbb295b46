"""What becomes of a commanded velocity: whether it leads into something, and how soon.

A drone does not fly a command at once, and that decides whether it can still avoid what is near: without
`response_s` a shield prevents less than half as many collisions.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception
from navrl.envs.navigation.planners.hazards import (
    Hazards,
    moving_level,
    static_points,
    urgency_per_s,
)
from navrl.envs.navigation.sim.lidar import Lidar
from navrl.envs.navigation.sim.obstacles import FAR_M


@dataclass(frozen=True, kw_only=True)
class Foresight:
    """How far ahead to look, and how wide a berth to give."""

    horizons_s: tuple[float, ...]  # from the nearest to the farthest
    response_s: float  # time constant of the drone's velocity, 0: it flies a command at once
    static_radius_m: (
        float  # of the disc at the end of a beam: the drone's radius and half a gap of beams
    )
    moving_margin_m: (
        float  # added to the radius of a moving obstacle: the drone's radius and a reserve
    )
    level_m: float  # the lidar's points farther above or below do not count

    def __post_init__(self) -> None:
        """Refuse what looks nowhere."""
        horizons = tuple(self.horizons_s)
        ordered = bool(horizons) and min(horizons) > 0.0 and list(horizons) == sorted(horizons)
        self._require("horizons_s", ordered, "times of more than 0, the nearest first")
        for name in ("response_s", "static_radius_m", "moving_margin_m", "level_m"):
            self._require(name, getattr(self, name) >= 0.0, "0 or more")

    def hazards(self, lidar: Lidar, perception: Perception, climb_mps: Tensor) -> Hazards:
        """A disc for each beam that meets something level, then one for each moving obstacle.

        Moving ones count if a drone with this vertical speed (N,) is level with them within the horizon.
        """
        along_x, along_y, distance = static_points(lidar, perception, self.level_m)
        still = torch.zeros_like(distance)
        minded = moving_level(perception, self.moving_margin_m, climb_mps, self.horizons_s[-1])
        x, y, _ = perception.near_offset.unbind(0)
        velocity_x, velocity_y, _ = perception.near_velocity.unbind(0)
        radius_m = perception.near_radius_m + self.moving_margin_m
        return Hazards(
            x=torch.cat([distance * along_x, torch.where(minded, x, FAR_M)]),
            y=torch.cat([distance * along_y, torch.where(minded, y, FAR_M)]),
            velocity_x=torch.cat([still, torch.where(minded, velocity_x, 0.0)]),
            velocity_y=torch.cat([still, torch.where(minded, velocity_y, 0.0)]),
            radius_m=torch.cat([still + self.static_radius_m, radius_m]),
        )

    def kept_part(self, horizon_s: float) -> float:
        """The part of its velocity of now in a drone's mean velocity until the horizon.

        Its velocity nears the command exponentially, so it is then exactly where a constant flight at the
        mean velocity ends.
        """
        if self.response_s == 0.0:
            return 0.0
        return self.response_s / horizon_s * -math.expm1(-horizon_s / self.response_s)

    def danger_per_s(
        self, hazards: Hazards, perception: Perception, command_x: Tensor, command_y: Tensor
    ) -> Tensor:
        """1 / (seconds to a collision) under commands (..., N), 0 for none within the horizons."""
        worst = torch.zeros_like(command_x)
        for horizon_s in self.horizons_s:
            kept = self.kept_part(horizon_s)
            mean_x = (1.0 - kept) * command_x + kept * perception.velocity[0]
            mean_y = (1.0 - kept) * command_y + kept * perception.velocity[1]
            urgency = urgency_per_s(hazards, mean_x, mean_y)
            worst = torch.maximum(worst, torch.where(urgency * horizon_s > 1.0, urgency, 0.0))
        return worst

    def _require(self, name: str, satisfied: bool, expected: str) -> None:
        if not satisfied:
            raise ValueError(
                f"foresight.{name} = {getattr(self, name)}; expected {expected}; change foresight.{name}"
            )
