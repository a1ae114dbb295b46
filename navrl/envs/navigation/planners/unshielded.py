"""shield=none: what the policy commands is flown."""

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception
from navrl.envs.navigation.sim.lidar import Lidar


class Unshielded:
    """Never changes a command."""

    def prepare(self, lidar: Lidar) -> None:
        """Nothing to learn."""

    def protect(self, perception: Perception, command: Tensor) -> tuple[Tensor, Tensor]:
        """The command (3, N) itself, and that nobody intervened, bool (N,)."""
        return command, torch.zeros_like(command[0], dtype=torch.bool)
