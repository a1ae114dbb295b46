"""`straight`: flies on at full throttle and never fires; a target to learn shooting on."""

import torch
from torch import Tensor

from navrl.envs.combat.opponents.base import Command, Pilot
from navrl.envs.combat.sim.state import CombatParams, CombatState


class Straight(Pilot):
    """No manoeuvre, no fire."""

    def initial(self, key: Tensor) -> tuple[Tensor, ...]:
        """Remembers nothing."""
        return ()

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """Rudder 0, full throttle."""
        rudder = torch.zeros_like(state.aircraft.motion.speed_mps[me])
        return Command(
            rudder, torch.ones_like(rudder), torch.zeros_like(rudder, dtype=torch.bool)
        ), ()
