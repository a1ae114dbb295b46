"""`random`: any rudder for some seconds, then another, and a shot now and then; the least of opponents."""

import torch
from torch import Tensor

from navrl.envs.combat.opponents.base import Bounds, Command, Pilot, check_bounds, draw_thresholds
from navrl.envs.combat.sim.state import CombatParams, CombatState, elapsed_s
from navrl.envs.core import random


class Random(Pilot):
    """Counter-based numbers: a function of the episode and the time in it."""

    def __init__(self, *, hold_s: Bounds, fire_interval_s: Bounds) -> None:
        check_bounds(least=0.1, hold_s=hold_s)
        check_bounds(fire_interval_s=fire_interval_s)
        self.hold_s, self.fire_interval_s = hold_s, fire_interval_s

    def initial(self, key: Tensor) -> tuple[Tensor, ...]:
        """The key of the episode, how long it holds a rudder, and the mean time between two shots."""
        return key, *draw_thresholds(key, (self.hold_s, self.fire_interval_s))

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """Uniform rudder, and a trigger pulled with the same chance at every decision."""
        key, hold_s, fire_interval_s = memory
        held = torch.floor(elapsed_s(params, state) / hold_s).to(torch.int64)
        rudder = 2.0 * random.uniform(random.mix(key ^ held), random.SCRIPT, 1)[0] - 1.0
        decision = random.mix(key ^ state.decision.to(torch.int64))
        chance = random.uniform(decision, random.SCRIPT, 2)[1]  # the first number is a rudder's
        fire = chance * fire_interval_s < params.step_s
        return Command(rudder, torch.ones_like(rudder), fire), memory
