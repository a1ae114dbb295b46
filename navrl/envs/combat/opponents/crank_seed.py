"""`crank_seed`: the rules of the original system's only fighter; despite the name it never cranks.

It approaches, fires between 18 and 20 km, and turns away from an enemy that is nearer.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from navrl.envs.combat.opponents.base import Bounds, Memory, ThresholdPilot
from navrl.envs.combat.opponents.tactics import Course, away_from, small_angle, towards
from navrl.envs.combat.sim.geometry import aircraft, focal_enemy, look
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command, can_fire, select

APPROACH, FIRE, DEFEND = 0, 1, 2


@dataclass(eq=False, kw_only=True)
class CrankSeed(ThresholdPilot):
    """Three stages: approach, fire, defend."""

    fire_range_m: Bounds
    defend_range_m: Bounds
    fire_cone_rad: Bounds
    fire_pause_s: Bounds
    full_rudder_error_rad: float
    rudder_per_rad: float
    idle_range_m: Bounds
    half_throttle_range_m: Bounds

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.sin_full_rudder = math.sin(self.full_rudder_error_rad)

    def initial(self, key: Tensor) -> Memory:
        """Return the stage, the seconds since the last shot, and the thresholds of the episode."""
        drawn = super().initial(key)
        ready_s = torch.full_like(drawn[0], self.bounds[3][1])
        return (torch.full_like(key, APPROACH, dtype=torch.int32), ready_s, *drawn)

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Fire only in the stage of that name, slow down only when it defends at close range."""
        stage, since_shot_s, *drawn = memory
        fire_range_m, defend_range_m, cos_fire_cone, fire_pause_s, idle_m, half_throttle_m = drawn
        view = look(aircraft(state, me), focal_enemy(params, state, me))
        defend = view.range_m < defend_range_m
        shoot = (view.range_m < fire_range_m) & (view.cos_bearing > cos_fire_cone)
        shoot = shoot & can_fire(params, state)[me] & (since_shot_s >= fire_pause_s)
        # From DEFEND the way leads through APPROACH, one decision later.
        shoot = shoot & ~defend & (stage != DEFEND)
        stage = torch.where(defend, DEFEND, torch.where(shoot, FIRE, APPROACH)).to(torch.int32)
        rudder = self._rudder(select(defend, away_from(view), towards(view)))
        slowed = torch.where(view.range_m < idle_m, 0.0, 0.5)
        throttle = torch.where(defend & (view.range_m < half_throttle_m), slowed, 1.0)
        since_shot_s = torch.where(shoot, 0.0, since_shot_s) + params.step_s
        return Command(rudder, throttle, shoot), (stage, since_shot_s, *drawn)

    def _rudder(self, course: Course) -> Tensor:
        """Return full rudder beyond the error, and a little in proportion to it within; astern: left."""
        full = torch.where(course.sin >= 0.0, 1.0, -1.0)
        near = (course.sin.abs() < self.sin_full_rudder) & (course.cos > 0.0)
        sine = course.sin.clamp(-self.sin_full_rudder, self.sin_full_rudder)
        return torch.where(near, small_angle(sine) * self.rudder_per_rad, full)
