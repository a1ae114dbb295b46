"""The scenario mypart."""

from dataclasses import dataclass

import torch
from navrl.envs.combat.scenarios import LineAbreast, at_range
from navrl.envs.combat.sim.flight import Motion


@dataclass(frozen=True, kw_only=True)
class MyPart(LineAbreast):
    """Two sides at a distance, each heading anywhere at 300 m/s."""

    range_m: float

    positive = ("range_m",)  # options that are refused unless they are more than 0

    def leaders(self, draw: torch.Tensor) -> Motion:
        """Return the motion of both leaders, fields (2, N), from uniform numbers (8, N)."""
        angle_rad = draw * (2.0 * torch.pi)
        return at_range(self.range_m, angle_rad[0], angle_rad[1:3], speed_mps=300.0)
