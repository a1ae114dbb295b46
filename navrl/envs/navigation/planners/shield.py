"""The shield: replaces commands that lead into something within the horizon."""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception
from navrl.envs.navigation.planners.collision_prediction import CollisionPrediction, VelocityFan
from navrl.envs.navigation.planners.static_prediction import Surroundings
from navrl.envs.navigation.sim.params import NavigationParams

UNSAFE_MPS = 1e3  # as a cost: any safe velocity is nearer


class Protected(NamedTuple):
    """The outcome of a shield."""

    velocity: Tensor  # (3, N) to fly
    changed: Tensor  # bool (N,): it is not the command
    safe: Tensor  # bool (N,): the shield expects no collision within its horizon


class Shield:
    """The nearest safe velocity of a fan around the command; where none is safe, the least dangerous.

    A command that collides with nothing within the horizons is flown unchanged, to the last bit. The
    vertical command always is.
    """

    def __init__(
        self, *, prediction: CollisionPrediction, headings: int, speeds_mps: tuple[float, ...]
    ) -> None:
        self.prediction, self.fan = prediction, VelocityFan(headings, tuple(speeds_mps))

    def prepare(self, params: NavigationParams) -> None:
        """Set the lidar's geometry; called once, before the first episode."""
        self.lidar = params.lidar

    @property
    def horizon_s(self) -> float:
        """Return the seconds within which a safe command is expected to collide with nothing."""
        return self.prediction.horizons_s[-1]

    def protect(
        self, perception: Perception, surroundings: Surroundings, command: Tensor
    ) -> Protected:
        """Return the velocity to fly; nothing but beams tell of static obstacles."""
        wanted_x, wanted_y, climb = command.unbind(0)
        hazards = self.prediction.hazards(self.lidar, perception, climb)
        choice = self.fan.around(wanted_x, wanted_y)
        danger = self.prediction.danger_per_s(hazards, perception, choice.x, choice.y)
        change = ((choice.x - wanted_x).square() + (choice.y - wanted_y).square()).sqrt()
        cost = torch.where(danger > 0.0, UNSAFE_MPS + danger, change)
        x, y = choice.cheapest(cost)
        # The command is the first of the fan and the nearest to itself: if it is safe, it is chosen.
        changed = (x != wanted_x) | (y != wanted_y)
        return Protected(torch.stack([x, y, climb]), changed, cost.amin(0) < UNSAFE_MPS)


class NoShield:
    """The absence of a shield (shield=none): every command is flown."""

    def prepare(self, params: NavigationParams) -> None:
        """Do nothing."""

    def protect(
        self, perception: Perception, surroundings: Surroundings, command: Tensor
    ) -> Protected:
        """Return the commands (3, N) themselves."""
        no = torch.zeros_like(command[0], dtype=torch.bool)
        return Protected(command, no, no)
