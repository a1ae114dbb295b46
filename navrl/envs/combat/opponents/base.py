"""What every scripted pilot is: pure functions over the simulator state, one row of memory per env."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim.state import CombatParams, CombatState
from navrl.envs.core import random

Bounds = tuple[float, float]  # a threshold is drawn between them, anew for every episode
_MOST = 1e9  # of metres, seconds and shares
_MATE_BIT = 60  # of a key: the first of three in which the members of a team differ


class Command(NamedTuple):
    """What one aircraft is told to do, fields (N,)."""

    rudder: Tensor  # -1 .. 1, positive turns left
    throttle: Tensor  # 0 .. 1
    fire: Tensor  # bool
    target: Tensor | None = None  # int32, place among the enemies; None: the nearest


class Pilot:
    """An opponent; memory is a tuple of (N,) tensors that starts anew with every episode."""

    compilable = True  # False: it holds networks, and acts outside of the compiled step

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Make or move the tensors that it holds; once, before the first episode."""

    def initial(self, key: Tensor) -> tuple[Tensor, ...]:
        """Memory at the start of the episodes with these keys."""
        raise TypeError(f"{type(self).__name__} lacks initial(key) -> memory")

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """The command of aircraft `me`, and the memory after it."""
        raise TypeError(f"{type(self).__name__} lacks act(...) -> (command, memory)")

    def tag(self, memory: tuple[Tensor, ...]) -> Tensor | int:
        """A number (N,) for who flies, where one pilot object stands for several; else 0."""
        return 0


def pilot_key(key: Tensor, number: int) -> Tensor:
    """The key of the pilot with this number, 0 to 7, in a team: every one draws thresholds of its own."""
    return key ^ (number << _MATE_BIT)


def team_key(key: Tensor) -> Tensor:
    """What the keys of all pilots of a team have in common."""
    return key | (7 << _MATE_BIT)


def check_bounds(least: float = 0.0, **thresholds: Bounds) -> None:
    """Raise about the first that is not two numbers in order, from `least` on; an angle ends at pi."""
    for name, pair in thresholds.items():
        most = math.pi if name.endswith("_rad") else _MOST
        if len(pair) != 2 or not least <= pair[0] <= pair[1] <= most:
            raise ValueError(
                f"{name} = {list(pair)}; expected two numbers from {least:g} to {most:.4g}, the lower one "
                f"first; change {name}"
            )


def draw_thresholds(key: Tensor, bounds: Sequence[Bounds]) -> tuple[Tensor, ...]:
    """One number in [low, high) for each of the bounds, fields (N,)."""
    draws = random.uniform(key, random.SCRIPT, len(bounds))
    return tuple(low + (high - low) * draw for (low, high), draw in zip(bounds, draws, strict=True))


def cosines(angles_rad: Bounds) -> Bounds:
    """The bounds of an angle as those of its cosine, which is what a View knows."""
    return math.cos(angles_rad[0]), math.cos(angles_rad[1])
