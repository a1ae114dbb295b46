"""The simulator of air combat: pure functions over tensors."""

from navrl.envs.combat.sim.flight import Airframe
from navrl.envs.combat.sim.params import CombatParams

__all__ = ["Airframe", "CombatParams"]
