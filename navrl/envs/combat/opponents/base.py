"""The base class of all opponents: pure functions over the simulator's state, one row of memory per env.

To add a pilot, write a class with `act` in a file of its own, export it from this package, and name it in a
file of conf/opponent. A pilot with thresholds takes them as [low, high] and draws one per episode: imitate
crank.py.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor

from navrl.config.checks import require
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command
from navrl.envs.core import random

Memory = tuple[Tensor, ...]  # of one pilot, fields (N,)
Bounds = tuple[float, float]  # a threshold is drawn between them, anew for every episode
NEAREST = -1  # the target of a pilot that names none
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


@dataclass(eq=False, kw_only=True)
class ThresholdPilot(Pilot):
    """A pilot whose memory is one threshold per episode for each of its options of the type Bounds."""

    least: ClassVar[Mapping[str, float]] = MappingProxyType({})  # of an option, unless it is 0

    def __post_init__(self) -> None:
        """Check the options, and keep their bounds in the order in which the class lists them."""
        names = [option.name for option in fields(self) if option.type == Bounds]
        self.bounds = tuple(
            _checked(name, getattr(self, name), self.least.get(name, 0.0)) for name in names
        )

    def initial(self, key: Tensor) -> Memory:
        """Draw the thresholds of the episode, so that a learner cannot memorise one."""
        return draw_thresholds(key, self.bounds)


def _checked(name: str, pair: Bounds, least: float) -> Bounds:
    """Return the bounds, or raise unless they are two rising numbers from `least` on.

    An angle ends at pi. The bounds of a `..._cone_rad` become those of its cosine, which a View has.
    """
    most = math.pi if name.endswith("_rad") else _MOST
    rising = len(pair) == 2 and least <= pair[0] <= pair[1] <= most
    expected = f"two numbers from {least:g} to {most:.4g}, the lower one first"
    require(rising, name, list(pair), expected)
    return (math.cos(pair[0]), math.cos(pair[1])) if name.endswith("_cone_rad") else pair


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


def target_of(command: Command) -> Tensor:
    """Return the target of a command; without one it fires at the nearest."""
    if command.target is not None:
        return command.target
    return torch.full_like(command.rudder, NEAREST, dtype=torch.int32)
