"""`phase3`: drags a missile away, weaves when it is close, and attacks again when it has lost it."""

from dataclasses import dataclass
from types import MappingProxyType

import torch

from navrl.envs.combat.opponents.base import Bounds, Memory, ThresholdPilot
from navrl.envs.combat.opponents.tactics import away_from, steer, towards
from navrl.envs.combat.sim.geometry import aircraft, focal_enemy, incoming_missile, look
from navrl.envs.combat.sim.state import (
    CombatParams,
    CombatState,
    Command,
    can_fire,
    elapsed_s,
    select,
)


@dataclass(eq=False, kw_only=True)
class Phase3(ThresholdPilot):
    """Snake, drag or engage, by the time to go of the incoming missile."""

    least = MappingProxyType({"snake_period_s": 0.1})

    snake_time_to_go_s: Bounds
    snake_period_s: Bounds
    drag_time_to_go_s: Bounds
    fire_range_m: Bounds
    fire_cone_rad: Bounds

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Escape the missile first, then attack the enemy."""
        snake_s, snake_period_s, drag_s, fire_range_m, cos_fire_cone = memory
        view = look(aircraft(state, me), focal_enemy(params, state, me))
        threat = incoming_missile(params, state, me)
        snake = threat.active & (threat.view.time_to_go_s < snake_s)
        drag = threat.active & (threat.view.time_to_go_s < drag_s)
        half_periods = torch.floor(elapsed_s(params, state) * 2.0 / snake_period_s)
        wave = 1.0 - 2.0 * (half_periods - 2.0 * torch.floor(half_periods * 0.5))
        rudder = steer(select(drag, away_from(threat.view), towards(view)))
        rudder = torch.where(snake, wave, rudder)
        fire = (view.range_m <= fire_range_m) & (view.cos_bearing > cos_fire_cone)
        fire = fire & can_fire(params, state)[me] & ~drag
        return Command(rudder, torch.ones_like(rudder), fire), memory
