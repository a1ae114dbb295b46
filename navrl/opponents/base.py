"""What every scripted pilot is: pure functions over the simulator state, one row of memory per env."""

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from navrl.sims.combat_state import CombatParams, CombatState


class Command(NamedTuple):
    """What one aircraft is told to do, fields (N,)."""

    rudder: Tensor  # -1 .. 1, positive turns left
    throttle: Tensor  # 0 .. 1
    fire: Tensor  # bool


class Pilot(Protocol):
    """A scripted opponent; memory is a tuple of (N,) tensors that starts anew with every episode."""

    def initial(self, key: Tensor) -> tuple[Tensor, ...]:
        """Memory at the start of the episodes with these keys."""

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """The command of aircraft `me`, and the memory after it."""


_FULL_RUDDER_ERROR_RAD = math.radians(20.0)
_SIN_FULL_RUDDER = math.sin(_FULL_RUDDER_ERROR_RAD)


def steer(cos_error: Tensor, sin_error: Tensor) -> Tensor:
    """Rudder that removes a heading error: proportional, full beyond 20 degrees; astern it is left.

    From the error's cosine and sine, without an inverse function: cheaper, and its bits do not depend on
    the batch size, as those of atan2 do.
    """
    direction = torch.where(sin_error >= 0.0, 1.0, -1.0)
    sine = sin_error.clamp(-_SIN_FULL_RUDDER, _SIN_FULL_RUDDER)
    square = sine * sine
    angle = sine * (1.0 + square * (1.0 / 6 + square * (3.0 / 40 + square * (15.0 / 336))))  # asin
    return torch.where(cos_error > 0.0, angle / _FULL_RUDDER_ERROR_RAD, direction).clamp(-1.0, 1.0)


def between(bounds: tuple[float, float], draw: Tensor) -> Tensor:
    """A number in [0, 1) stretched over [low, high)."""
    return bounds[0] + (bounds[1] - bounds[0]) * draw
