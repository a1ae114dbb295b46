"""Kinds of action: the choices of a policy, and the command that an aircraft receives.

With several enemies an action also names the target, by the place among the enemies. To add a kind, write a
class with the methods of `ActionKind` here and a file in conf/action.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torchrl.data import MultiCategorical, TensorSpec

from navrl.config.checks import require
from navrl.envs.combat.sim.state import Command
from navrl.envs.core.reductions import any_row
from navrl.envs.core.specs import Hybrid

# A configuration may name these.
__all__ = ["Continuous", "Discrete", "DiscreteFine"]


class ActionKind(Protocol):
    """One kind of action. The env axis N is last in masks and first in actions, as TorchRL has it."""

    team_size: int
    mask_size: int

    def spec(self, batch_shape: Sequence[int], device: torch.device | str) -> TensorSpec:
        """Return the spec of actions (*batch_shape, columns)."""

    def mask(self, ready: Tensor, enemies_alive: Tensor) -> Tensor:
        """Return the allowed choices, bool (mask_size, N), from readiness (N,) and living enemies (S, N)."""

    def command(self, action: Tensor) -> Command:
        """Return the command of actions (N, columns)."""

    def nearest(
        self, rudder: Tensor, throttle: Tensor, fire: Tensor, target: Tensor | None
    ) -> Tensor:
        """Return the actions (N, columns) nearest to the command of a scripted pilot."""


class _Choices:
    """Columns of choices: rudder, throttle unless it is always full, fire, target if there are several."""

    # A rudder beyond one of them is one choice further off the middle.
    rudder_edges: tuple[float, ...]
    throttles: tuple[float, ...]
    throttle_edges: tuple[float, ...]

    def __init__(self, *, team_size: int) -> None:
        self.team_size = team_size
        moves = (2 * len(self.rudder_edges) + 1, len(self.throttles))
        self.sizes = [size for size in (*moves, 2, team_size) if size > 1]
        self.mask_size = sum(self.sizes)

    @property
    def names(self) -> list[str]:
        """Return what the columns mean."""
        most = 2 * len(self.rudder_edges)
        listed = ", ".join(f"{number} is {level:g}" for number, level in enumerate(self.throttles))
        throttle = [f"throttle: {listed}"] if len(self.throttles) > 1 else []
        target = ["target: the place among the enemies"] if self.team_size > 1 else []
        return [f"rudder: 0 is -1, {most} is 1", *throttle, "trigger: 1 is fire", *target]

    def spec(self, batch_shape: Sequence[int], device: torch.device | str) -> TensorSpec:
        """Return one column per choice."""
        shape = (*batch_shape, len(self.sizes))
        return MultiCategorical(self.sizes, shape=shape, device=device)

    def mask(self, ready: Tensor, enemies_alive: Tensor) -> Tensor:
        """Forbid a trigger that is not ready, and dead targets while another enemy lives."""
        _check_team(self.team_size, enemies_alive)
        targets = [] if self.team_size == 1 else [*(enemies_alive | ~any_row(enemies_alive))]
        moves = self.mask_size - 1 - len(targets)
        return torch.stack([*[torch.ones_like(ready)] * moves, ready, *targets])

    def command(self, action: Tensor) -> Command:
        """Return rudder in equal steps and throttle in listed ones."""
        rudder, *middle, fire = action[:, : len(self.sizes) - (self.team_size > 1)].unbind(-1)
        rudder = rudder.to(torch.float32) * (1.0 / len(self.rudder_edges)) - 1.0
        throttle = torch.full_like(rudder, self.throttles[0])
        for column in middle:
            for number, level in enumerate(self.throttles):
                throttle = torch.where(column == number, level, throttle)
        target = None if self.team_size == 1 else action[:, -1].to(torch.int32)
        return Command(rudder, throttle, fire == 1, target)

    def nearest(
        self, rudder: Tensor, throttle: Tensor, fire: Tensor, target: Tensor | None
    ) -> Tensor:
        """Round rudder and throttle; keep the trigger."""
        turn = _passed(self.rudder_edges, rudder) - _passed(self.rudder_edges, -rudder)
        columns = [turn + len(self.rudder_edges)]
        if self.throttle_edges:
            columns.append(_passed(self.throttle_edges, throttle))
        columns.append(fire.long())
        if self.team_size > 1:
            columns.append(_named(target).long())
        return torch.stack(columns, dim=-1)


class Discrete(_Choices):
    """Full right, straight or full left at full throttle; hold or fire."""

    rudder_edges = (0.3,)
    throttles = (1.0,)
    throttle_edges = ()


class DiscreteFine(_Choices):
    """Five rudders, -1 to 1, and three throttles."""

    rudder_edges = (0.25, 0.75)
    throttles = (0.3, 0.7, 1.0)
    throttle_edges = (0.5, 0.85)


class Steering(Hybrid):
    """Rudder, throttle, and then only binary columns, as many as the shape has."""

    def __init__(
        self, low: Any, high: Any, shape: Sequence[int], *place: Any, **options: Any
    ) -> None:
        self.num_binary = shape[-1] - 2
        super().__init__(low, high, shape, *place, **options)


class Continuous:
    """Any rudder and throttle; fire is binary.

    The target is chosen by binary columns too, one for every enemy but the last: "this one, unless one before
    it is taken"; if none is taken, the last one. So any distribution over the enemies can be expressed.
    """

    def __init__(self, *, team_size: int) -> None:
        self.team_size = team_size
        self.mask_size = 2 * team_size  # no and yes, of the trigger and of every enemy but the last
        targets = [
            f"takes enemy {place}, unless one before it is" for place in range(team_size - 1)
        ]
        self.names = ["rudder", "throttle", "trigger: 1 is fire", *targets]

    def spec(self, batch_shape: Sequence[int], device: torch.device | str) -> TensorSpec:
        """Return rudder, throttle, fire, and the target."""
        low, high = [-1.0] + [0.0] * (1 + self.team_size), [1.0] * (2 + self.team_size)
        return Steering(low, high, (*batch_shape, len(low)), device)

    def mask(self, ready: Tensor, enemies_alive: Tensor) -> Tensor:
        """Forbid a trigger that is not ready, to choose a dead enemy, and to skip the last living one."""
        _check_team(self.team_size, enemies_alive)
        rows = [torch.ones_like(ready), ready]
        for enemy in range(self.team_size - 1):
            lives, later = enemies_alive[enemy], any_row(enemies_alive[enemy + 1 :])
            rows += [later | ~lives, lives]
        return torch.stack(rows)

    def command(self, action: Tensor) -> Command:
        """Return the columns as they are."""
        rudder, throttle, fire, *taken = action.unbind(-1)
        if self.team_size == 1:
            return Command(rudder, throttle, fire == 1.0, None)
        target = torch.full_like(rudder, self.team_size - 1, dtype=torch.int32)
        for enemy in reversed(range(self.team_size - 1)):
            target = torch.where(taken[enemy] == 1.0, enemy, target)
        return Command(rudder, throttle, fire == 1.0, target)

    def nearest(
        self, rudder: Tensor, throttle: Tensor, fire: Tensor, target: Tensor | None
    ) -> Tensor:
        """Clip to the bounds."""
        columns = [rudder.clamp(-1.0, 1.0), throttle.clamp(0.0, 1.0), fire.to(rudder.dtype)]
        others = range(self.team_size - 1)
        columns += [(_named(target) == enemy).to(rudder.dtype) for enemy in others]
        return torch.stack(columns, dim=-1)


def _check_team(team_size: int, enemies_alive: Tensor) -> None:
    size = enemies_alive.shape[0]
    require(size == team_size, "action.team_size", team_size, f"{size}, the aircraft on a side")


def _passed(edges: Sequence[float], value: Tensor) -> Tensor:
    """Count the edges that the value is beyond."""
    return torch.stack([value > edge for edge in edges]).sum(0)


def _named(target: Tensor | None) -> Tensor:
    if target is None:
        raise ValueError("an action among several enemies got no target; pass the place of one")
    return target
