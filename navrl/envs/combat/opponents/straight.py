"""`straight`: flies on at full throttle and never fires; a target to learn shooting on."""

import torch

from navrl.envs.combat.opponents.base import Memory, Pilot
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command


class Straight(Pilot):
    """No manoeuvre, no fire."""

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Return rudder 0, full throttle."""
        rudder = torch.zeros_like(state.aircraft.motion.speed_mps[me])
        no_fire = torch.zeros_like(rudder, dtype=torch.bool)
        return Command(rudder, torch.ones_like(rudder), no_fire), ()
