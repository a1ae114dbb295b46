"""The sound shield: what it calls safe reaches nothing static, in any direction, within its second."""

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception
from navrl.envs.navigation.planners.collision_prediction import (
    MovingPrediction,
    VelocityFan,
)
from navrl.envs.navigation.planners.shield import UNSAFE_MPS, Protected
from navrl.envs.navigation.planners.static_prediction import (
    NearStatic,
    StaticPrediction,
    Surroundings,
)
from navrl.envs.navigation.sim.params import NavigationParams

_STRANDED = 1e4  # a cost: any velocity after which the drone can stop is cheaper


class SoundShield:
    """The nearest safe velocity of a fan around the command; where none is safe, the least dangerous.

    A command that collides with nothing within the horizons, and after which the drone can still stop, is
    flown unchanged, to the last bit. The vertical command is kept, unless it alone leads into something.
    """

    def __init__(
        self,
        *,
        static: StaticPrediction,
        moving: MovingPrediction,
        headings: int,
        speeds_mps: tuple[float, ...],
    ) -> None:
        self._static, self._moving = static, moving
        self._fan = VelocityFan(headings, tuple(speeds_mps))

    def prepare(self, params: NavigationParams) -> None:
        """Set the drone that is protected; called once, before the first episode."""
        self._static.prepare(params)

    @property
    def horizon_s(self) -> float:
        """Return the seconds that a command called safe can be flown without reaching something static."""
        return self._static.held.times_s[-1]

    def protect(
        self, perception: Perception, surroundings: Surroundings, command: Tensor
    ) -> Protected:
        """Return the velocities to fly, (3, N)."""
        near = self._static.near(surroundings, perception.position)
        x, y, climb = command.unbind(0)
        zero = torch.zeros_like(x)
        # The command, no way but its climb, and a stop.
        own = tuple(map(torch.stack, ((x, zero, zero), (y, zero, zero), (climb, climb, zero))))
        static = self._static.danger_per_s(near, perception, self._static.held, own)
        ends = self._static.danger_per_s(near, perception, self._static.stopped, own)
        moving = self._moving_danger(perception, climb, own[0], own[1])
        passes = (static[0] == 0.0) & (ends[0] == 0.0) & (moving[0] == 0.0)
        level = torch.where(static[1] > 0.0, 0.0, climb)
        fan_x, fan_y, least = self._best_of_fan(near, perception, command, level)
        stops = (least >= _STRANDED) & (ends[2] == 0.0)
        chosen = torch.where(stops, 0.0, torch.stack([fan_x, fan_y, level]))
        stop_safe = stops & (static[2] == 0.0) & (moving[2] == 0.0)
        velocity = torch.where(passes, command, chosen)
        safe = passes | (least < UNSAFE_MPS) | stop_safe
        return Protected(velocity, (velocity != command).any(0), safe)

    def _best_of_fan(
        self, near: list[NearStatic], perception: Perception, command: Tensor, climb: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the nearest safe velocity in the plane, or the least dangerous, and its cost, (N,)."""
        choice = self._fan.around(command[0], command[1])
        planned = (choice.x, choice.y, climb.unsqueeze(0))
        danger = torch.maximum(
            self._static.danger_per_s(near, perception, self._static.held, planned),
            self._moving_danger(perception, climb, choice.x, choice.y),
        )
        ends = self._static.danger_per_s(near, perception, self._static.stopped, planned)
        change = ((choice.x - command[0]).square() + (choice.y - command[1]).square()).sqrt()
        cost = torch.where(danger > 0.0, UNSAFE_MPS + danger, change)
        # A way out is not given up while there is one: to stop after this decision.
        cost = torch.where(ends > 0.0, _STRANDED + danger, cost)
        x, y = choice.cheapest(cost)
        return x, y, cost.amin(0)

    def _moving_danger(self, perception: Perception, climb: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return 1 / (seconds to a collision with a moving obstacle), 0 for none, (C, N)."""
        hazards = self._moving.moving_hazards(perception, climb)
        return self._moving.danger_per_s(hazards, perception, x, y)
