"""`random`: any rudder for some seconds, then another, and a shot now and then; the least armed opponent."""

from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from navrl.envs.combat.opponents.base import Bounds, Memory, ThresholdPilot
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command, elapsed_s
from navrl.envs.core import random


@dataclass(eq=False, kw_only=True)
class Random(ThresholdPilot):
    """Counter-based numbers: a function of the episode and the time in it."""

    least = MappingProxyType({"hold_s": 0.1})

    hold_s: Bounds
    fire_interval_s: Bounds

    def initial(self, key: Tensor) -> Memory:
        """Return the key of the episode, how long it holds a rudder, and the mean time between shots."""
        return key, *super().initial(key)

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Draw a uniform rudder, and pull the trigger with the same chance at every decision."""
        key, hold_s, fire_interval_s = memory
        held = torch.floor(elapsed_s(params, state) / hold_s).to(torch.int64)
        rudder = 2.0 * random.uniform(random.mix(key ^ held), random.SCRIPT, 1)[0] - 1.0
        decision = random.mix(key ^ state.decision.to(torch.int64))
        chance = random.uniform(decision, random.SCRIPT, 2)[1]  # the first number is a rudder's
        fire = chance * fire_interval_s < params.step_s
        return Command(rudder, torch.ones_like(rudder), fire), memory
