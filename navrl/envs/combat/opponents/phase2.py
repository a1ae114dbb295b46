"""`phase2`: a long shot, a few seconds straight on, then flight; the opponent to learn survival on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from navrl.envs.combat.opponents.base import Bounds, Memory, ThresholdPilot
from navrl.envs.combat.opponents.tactics import away_from, steer, towards
from navrl.envs.combat.sim.geometry import aircraft, focal_enemy, look
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command, can_fire, select

ENGAGE, SUPPORT, EXTEND = 0, 1, 2


@dataclass(eq=False, kw_only=True)
class Phase2(ThresholdPilot):
    """Three stages: engage until the shot, support it, extend."""

    fire_range_m: Bounds
    fire_cone_rad: Bounds
    support_s: Bounds
    extend_range_m: Bounds
    extend_s: Bounds

    def initial(self, key: Tensor) -> Memory:
        """Return the stage, the seconds in it, and the thresholds of the episode."""
        drawn = super().initial(key)
        stage = torch.full_like(key, ENGAGE, dtype=torch.int32)
        return (stage, torch.zeros_like(drawn[0]), *drawn)

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Fly by the stage; missiles at itself are ignored: only distance protects it."""
        stage, in_stage_s, *drawn = memory
        fire_range_m, cos_fire_cone, support_s, extend_range_m, extend_s = drawn
        view = look(aircraft(state, me), focal_enemy(params, state, me))
        fire = (view.range_m <= fire_range_m) & (view.cos_bearing > cos_fire_cone)
        fire = fire & can_fire(params, state)[me] & (stage == ENGAGE)
        turn_away = (stage == SUPPORT) & (in_stage_s >= support_s)
        far = (view.range_m > extend_range_m) | (in_stage_s >= extend_s)
        return_ = (stage == EXTEND) & far & (state.aircraft.rounds[me] > 0)
        stage = torch.where(
            fire, SUPPORT, torch.where(turn_away, EXTEND, torch.where(return_, ENGAGE, stage))
        )
        stage = stage.to(torch.int32)
        in_stage_s = torch.where(fire | turn_away | return_, 0.0, in_stage_s) + params.step_s
        rudder = steer(select(stage == EXTEND, away_from(view), towards(view)))
        rudder = torch.where(stage == SUPPORT, 0.0, rudder)
        return Command(rudder, torch.ones_like(rudder), fire), (stage, in_stage_s, *drawn)
