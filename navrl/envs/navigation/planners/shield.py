"""The shield: flies what the pilot commands, except what leads into something within the horizon."""

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception
from navrl.envs.navigation.planners.collision_prediction import Foresight, check_fan, fan
from navrl.envs.navigation.sim.lidar import Lidar

_UNSAFE = 1e3  # m/s: any safe velocity is nearer


class Shield:
    """The nearest safe velocity of a fan around the command; where none is safe, the least dangerous.

    A command that collides with nothing within the horizons is flown unchanged, to the last bit. The
    vertical command always is.
    """

    def __init__(
        self, *, foresight: Foresight, headings: int, speeds_mps: tuple[float, ...]
    ) -> None:
        self.foresight = foresight
        check_fan(headings, speeds_mps)
        self.headings, self.speeds_mps = headings, tuple(speeds_mps)

    def prepare(self, lidar: Lidar) -> None:
        """Learn where the beams point."""
        self.lidar = lidar

    def protect(self, perception: Perception, command: Tensor) -> tuple[Tensor, Tensor]:
        """What to fly (3, N), and where that is not the command, bool (N,)."""
        wanted_x, wanted_y, climb = command.unbind(0)
        hazards = self.foresight.hazards(self.lidar, perception, climb)
        choice = fan(wanted_x, wanted_y, headings=self.headings, speeds_mps=self.speeds_mps)
        danger = self.foresight.danger_per_s(hazards, perception, choice.x, choice.y)
        change = ((choice.x - wanted_x).square() + (choice.y - wanted_y).square()).sqrt()
        x, y = choice.least(torch.where(danger > 0.0, _UNSAFE + danger, change))
        # The command is the first of the fan and the nearest to itself: if it is safe, it is chosen.
        return torch.stack([x, y, climb]), (x != wanted_x) | (y != wanted_y)


class NoShield:
    """Never changes a command."""

    def prepare(self, lidar: Lidar) -> None:
        """Nothing to learn."""

    def protect(self, perception: Perception, command: Tensor) -> tuple[Tensor, Tensor]:
        """The command (3, N) itself, and that nobody intervened, bool (N,)."""
        return command, torch.zeros_like(command[0], dtype=torch.bool)
