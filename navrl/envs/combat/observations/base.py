"""The role of an observation: named leaves, computed from the simulator's state for any aircraft.

To add one, write a class with these methods in a file of this package, export it, and name it in a file of
conf/observation.
"""

from typing import Protocol

import torch
from torch import Tensor

from navrl.envs.combat.sim.state import CombatParams, CombatState


class Observation(Protocol):
    """One kind of observation."""

    leaves: dict[str, tuple[int, ...]]  # shape per aircraft; where the name ends in "_mask": bool

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Raise if it cannot describe such fights, and build its tables; once, before the first rows."""

    def rows(self, params: CombatParams, state: CombatState, me: int) -> dict[str, Tensor]:
        """Return the observation of aircraft `me`, every leaf in its shape and then N."""
