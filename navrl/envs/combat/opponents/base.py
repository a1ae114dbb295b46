"""The base class of all opponents: pure functions over the simulator's state, one row of memory per env.

To add a pilot, write a class with `act` in a file of its own, export it from this package, and name it in a
file of conf/opponent. A pilot with thresholds takes them as [low, high] and draws one per episode: imitate
crank.py.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from navrl.config.checks import require
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command
from navrl.envs.core import random

Memory = tuple[Tensor, ...]  # of one pilot, fields (N,)
Bounds = tuple[float, float]  # a threshold is drawn between them, anew for every episode
_MOST = 1e9  # of metres, seconds and shares
_MATE_BIT = 60  # of a key: the first of three in which the members of a team differ


class Pilot:
    """A scripted or frozen pilot; its memory begins anew with every episode."""

    compilable = True  # False: it holds networks, and acts outside of the compiled step

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Build or move its tensors; called once, before the first episode."""

    def initial(self, key: Tensor) -> Memory:
        """Return the memory at the start of the episodes with these keys; by default none."""
        return ()

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Return the command of aircraft `me`, and the memory after it."""
        raise TypeError(f"{type(self).__name__} lacks act(...) -> (command, memory)")

    def tag(self, memory: Memory) -> Tensor | int:
        """Return the number (N,) of the pilot that acts, where one object stands for several; else 0."""
        return 0


class ThresholdPilot(Pilot):
    """A pilot whose memory is one threshold per episode for each of its `bounds`."""

    bounds: tuple[Bounds, ...]

    def initial(self, key: Tensor) -> Memory:
        """Draw the thresholds of the episode, so that a learner cannot memorise one."""
        return draw_thresholds(key, self.bounds)


def checked_bounds(least: float = 0.0, **thresholds: Bounds) -> tuple[Bounds, ...]:
    """Return the bounds in order, or raise unless each is two rising numbers from `least` on.

    An angle ends at pi. The bounds of a `..._cone_rad` become those of its cosine, which a View has.
    """
    found = []
    for name, pair in thresholds.items():
        most = math.pi if name.endswith("_rad") else _MOST
        rising = len(pair) == 2 and least <= pair[0] <= pair[1] <= most
        expected = f"two numbers from {least:g} to {most:.4g}, the lower one first"
        require(rising, name, list(pair), expected)
        is_cone = name.endswith("_cone_rad")
        found.append((math.cos(pair[0]), math.cos(pair[1])) if is_cone else pair)
    return tuple(found)


def draw_thresholds(key: Tensor, bounds: Sequence[Bounds]) -> tuple[Tensor, ...]:
    """Draw one number in [low, high) for each of the bounds, fields (N,)."""
    draws = random.uniform(key, random.SCRIPT, len(bounds))
    return tuple(low + (high - low) * draw for (low, high), draw in zip(bounds, draws, strict=True))


def pilot_key(key: Tensor, number: int) -> Tensor:
    """Return the key of the pilot with this number, 0 to 7, in a team: each draws its own thresholds."""
    return key ^ (number << _MATE_BIT)


def team_key(key: Tensor) -> Tensor:
    """Return the part that the keys of all pilots of a team have in common."""
    return key | (7 << _MATE_BIT)
