"""The shield: replaces commands that lead into something within the horizon."""

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception
from navrl.envs.navigation.planners.collision_prediction import CollisionPrediction, VelocityFan
from navrl.envs.navigation.sim.lidar import Lidar

_UNSAFE = 1e3  # m/s: any safe velocity is nearer


class Shield:
    """The nearest safe velocity of a fan around the command; where none is safe, the least dangerous.

    A command that collides with nothing within the horizons is flown unchanged, to the last bit. The
    vertical command always is.
    """

    def __init__(
        self, *, prediction: CollisionPrediction, headings: int, speeds_mps: tuple[float, ...]
    ) -> None:
        self.prediction, self.fan = prediction, VelocityFan(headings, tuple(speeds_mps))

    def prepare(self, lidar: Lidar) -> None:
        """Set the lidar's geometry; called once, before the first episode."""
        self.lidar = lidar

    def protect(self, perception: Perception, command: Tensor) -> tuple[Tensor, Tensor]:
        """Return the velocity to fly (3, N), and where it differs from the command, bool (N,)."""
        wanted_x, wanted_y, climb = command.unbind(0)
        hazards = self.prediction.hazards(self.lidar, perception, climb)
        choice = self.fan.around(wanted_x, wanted_y)
        danger = self.prediction.danger_per_s(hazards, perception, choice.x, choice.y)
        change = ((choice.x - wanted_x).square() + (choice.y - wanted_y).square()).sqrt()
        x, y = choice.cheapest(torch.where(danger > 0.0, _UNSAFE + danger, change))
        # The command is the first of the fan and the nearest to itself: if it is safe, it is chosen.
        return torch.stack([x, y, climb]), (x != wanted_x) | (y != wanted_y)


class NoShield:
    """The absence of a shield (shield=none): every command is flown."""

    def prepare(self, lidar: Lidar) -> None:
        """Do nothing."""

    def protect(self, perception: Perception, command: Tensor) -> tuple[Tensor, Tensor]:
        """Return the command (3, N) itself, and no intervention, bool (N,)."""
        return command, torch.zeros_like(command[0], dtype=torch.bool)
