"""`pursuit`: turns at full rudder until it points at the enemy, then follows; never fires."""

import math

import torch

from navrl.envs.combat.opponents.base import Memory, Pilot
from navrl.envs.combat.sim.geometry import aircraft, focal_enemy, look
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command


class Pursuit(Pilot):
    """Bang-bang pure pursuit."""

    def __init__(self, *, dead_zone_rad: float) -> None:
        self.sin_dead_zone = math.sin(dead_zone_rad)

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Turn at full rudder to the enemy outside the dead zone; left when it is dead astern."""
        view = look(aircraft(state, me), focal_enemy(params, state, me))
        aligned = view.sin_bearing.abs() < self.sin_dead_zone
        rudder = torch.where(aligned & (view.cos_bearing > 0.0), 0.0, torch.sign(view.sin_bearing))
        rudder = torch.where(aligned & (view.cos_bearing <= 0.0), 1.0, rudder)
        return Command(rudder, torch.ones_like(rudder), torch.zeros_like(aligned)), ()
