"""What every observation is: named leaves, computed from the simulator's state for any aircraft."""

from typing import Protocol

import torch
from torch import Tensor

from navrl.envs.combat.sim.state import CombatParams, CombatState


class Observation(Protocol):
    """One kind of observation."""

    leaves: dict[str, tuple[int, ...]]  # shape per aircraft; where the name ends in "_mask": bool

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Refuse fights that it cannot describe, and build its tables; once, before the first rows."""

    def rows(self, params: CombatParams, state: CombatState, me: int) -> dict[str, Tensor]:
        """What aircraft `me` is told, every leaf in its shape and then N."""
