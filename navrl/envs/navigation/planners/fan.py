"""Velocities to choose from: rings of headings around the wanted one, itself, and to stay where one is."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

_LEAST_MPS = 1e-6  # slower, a velocity has no direction


class Fan(NamedTuple):
    """C velocities in the plane, fields (C, N); the first is the wanted one."""

    x: Tensor
    y: Tensor

    def least(self, cost: Tensor) -> tuple[Tensor, Tensor]:
        """The velocity (N,) of the least cost (C, N); the first of several."""
        chosen = cost.argmin(0, keepdim=True)
        return self.x.gather(0, chosen)[0], self.y.gather(0, chosen)[0]


def check_fan(headings: int, speeds_mps: Sequence[float]) -> None:
    """Refuse a fan in which there is nothing to choose."""
    if headings < 1:
        raise ValueError(f"headings = {headings}; expected 1 or more; change headings")
    if not (speeds_mps and all(0.0 < speed < math.inf for speed in speeds_mps)):
        raise ValueError(
            f"speeds_mps = {list(speeds_mps)}; expected one or more numbers above 0; change speeds_mps"
        )


def fan(wanted_x: Tensor, wanted_y: Tensor, *, headings: int, speeds_mps: tuple[float, ...]) -> Fan:
    """The wanted velocity (N,), all headings at all speeds, beginning with its own, and a stop."""
    speed = (wanted_x.square() + wanted_y.square()).sqrt()
    moving = speed > _LEAST_MPS
    cos = torch.where(moving, wanted_x / speed.clamp_min(_LEAST_MPS), 1.0)
    sin = torch.where(moving, wanted_y / speed.clamp_min(_LEAST_MPS), 0.0)
    turns = [2.0 * math.pi * number / headings for number in range(headings)]
    ahead = [pace * math.cos(turn) for pace in speeds_mps for turn in turns]
    aside = [pace * math.sin(turn) for pace in speeds_mps for turn in turns]
    ahead_mps = wanted_x.new_tensor([*ahead, 0.0]).unsqueeze(-1)
    aside_mps = wanted_x.new_tensor([*aside, 0.0]).unsqueeze(-1)
    return Fan(
        x=torch.cat([wanted_x.unsqueeze(0), cos * ahead_mps - sin * aside_mps]),
        y=torch.cat([wanted_y.unsqueeze(0), sin * ahead_mps + cos * aside_mps]),
    )
