"""How a fight begins: a scenario turns the key of an episode into the opening motion of everybody."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.sims import random
from navrl.sims.flight import Motion


class MidRandom(NamedTuple):
    """Two aircraft at mid range, pointing roughly at each other, whole picture turned at random."""

    range_m: tuple[float, float]
    speed_mps: tuple[float, float]
    heading_spread_rad: float  # off the line to the enemy, either way

    def checked(self) -> "MidRandom":
        """Self, or a ValueError that says which bound is impossible."""
        for name in ("range_m", "speed_mps"):
            bounds = getattr(self, name)
            if len(bounds) != 2 or not 0.0 < bounds[0] <= bounds[1]:
                raise ValueError(
                    f"env.scenario.{name} = {list(bounds)}; expected [low, high] with 0 < low <= high; "
                    f"change env.scenario.{name}"
                )
        return self

    def opening(self, key: Tensor) -> Motion:
        """Motion of aircraft 0 and 1, fields (2, N)."""
        draw = random.uniform(key, random.SCENARIO, 7)
        range_m = _between(self.range_m, draw[0])
        line_rad = draw[1] * (2.0 * math.pi)  # from aircraft 0 to aircraft 1
        cos_line, sin_line = torch.cos(line_rad), torch.sin(line_rad)
        # The coin makes "first" and "second" interchangeable even for scenarios that are not symmetric.
        side = torch.where(draw[2] < 0.5, 1.0, -1.0)
        offset = torch.stack([-side, side]) * (range_m * 0.5)
        heading = torch.stack([line_rad, line_rad + math.pi])
        heading = torch.where(side > 0, heading, heading + math.pi)
        heading = heading + (2.0 * draw[3:5] - 1.0) * self.heading_spread_rad
        return Motion(
            x_m=offset * cos_line,
            y_m=offset * sin_line,
            cos_heading=torch.cos(heading),
            sin_heading=torch.sin(heading),
            speed_mps=_between(self.speed_mps, draw[5:7]),
        )


def _between(bounds: tuple[float, float], draw: Tensor) -> Tensor:
    return bounds[0] + (bounds[1] - bounds[0]) * draw
