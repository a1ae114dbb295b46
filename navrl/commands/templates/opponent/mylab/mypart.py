"""The opponent mypart."""

import torch
from navrl.envs.combat.opponents.base import Memory, Pilot
from navrl.envs.combat.sim.geometry import aircraft, focal_enemy, look
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command, can_fire


class MyPart(Pilot):
    """Turns to the nearest enemy, and fires whenever that is near."""

    def __init__(self, *, fire_within_m: float) -> None:
        self.fire_within_m = fire_within_m

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Return the command of aircraft `me`, and no memory; fields (N,)."""
        view = look(aircraft(state, me), focal_enemy(params, state, me))
        rudder = torch.where(view.cos_bearing > 0.0, view.sin_bearing, view.sin_bearing.sign())
        fire = can_fire(params, state)[me] & (view.range_m < self.fire_within_m)
        return Command(rudder, torch.ones_like(rudder), fire), memory
