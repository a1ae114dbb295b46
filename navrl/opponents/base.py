"""What every scripted pilot is: pure functions over the simulator state, one row of memory per env."""

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from navrl.sims.combat_state import CombatParams, CombatState
from navrl.sims.relative import View


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


def bearing_rad(view: View) -> Tensor:
    """Where the other is off the own nose, positive to the left."""
    return torch.atan2(view.sin_bearing, view.cos_bearing)


def steer(error_rad: Tensor) -> Tensor:
    """Rudder that removes a heading error: proportional, full beyond 20 degrees."""
    return (error_rad / _FULL_RUDDER_ERROR_RAD).clamp(-1.0, 1.0)


def wrapped(angle_rad: Tensor) -> Tensor:
    """The same angle within half a turn of zero."""
    return angle_rad - (2.0 * math.pi) * torch.round(angle_rad / (2.0 * math.pi))


def between(bounds: tuple[float, float], draw: Tensor) -> Tensor:
    """A number in [0, 1) stretched over [low, high)."""
    return bounds[0] + (bounds[1] - bounds[0]) * draw
