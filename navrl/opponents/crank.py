"""`crank`: shoots inside its no-escape range, supports the missile, turns away from a close one."""

import math

import torch
from torch import Tensor

from navrl.opponents.base import Command, between, steer
from navrl.sims import random
from navrl.sims.combat_state import CombatParams, CombatState, can_fire, enemies_of
from navrl.sims.relative import aircraft, incoming_missile, look, own_missile

Bounds = tuple[float, float]


class Crank:
    """Every threshold is drawn anew per episode, so that a learner cannot memorise one."""

    def __init__(
        self,
        *,
        no_escape_range_m: float,
        no_escape_per_own_speed_s: float,
        no_escape_per_enemy_speed_s: float,
        fire_fraction: Bounds,
        fire_cone_rad: float,
        crank_angle_rad: Bounds,
        turn_out_time_to_go_s: Bounds,
    ) -> None:
        self.no_escape = (
            no_escape_range_m,
            no_escape_per_own_speed_s,
            no_escape_per_enemy_speed_s,
        )
        self.fire_fraction = fire_fraction
        self.cos_fire_cone = math.cos(fire_cone_rad)
        self.crank_angle_rad = crank_angle_rad
        self.turn_out_time_to_go_s = turn_out_time_to_go_s

    def initial(self, key: Tensor) -> tuple[Tensor, ...]:
        """Fire fraction, crank angle and turn-out time of the episode."""
        draw = random.uniform(key, random.SCRIPT, 3)
        return (
            between(self.fire_fraction, draw[0]),
            between(self.crank_angle_rad, draw[1]),
            between(self.turn_out_time_to_go_s, draw[2]),
        )

    def no_escape_range_m(self, own_speed_mps: Tensor, enemy_speed_mps: Tensor) -> Tensor:
        """Head-on launch range from which an enemy that turns away at once is still hit."""
        at_rest, per_own, per_enemy = self.no_escape
        return at_rest + per_own * own_speed_mps + per_enemy * enemy_speed_mps

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """Turn out, else crank, else pursue; fire whenever the enemy is in reach and in the cone."""
        fire_fraction, crank_angle_rad, turn_out_s = memory
        own, enemy = aircraft(state, me), aircraft(state, enemies_of(params, me)[0])
        view = look(own, enemy)
        threat = incoming_missile(params, state, me)
        turn_out = threat.active & (threat.view.time_to_go_s < turn_out_s)
        cranking = own_missile(params, state, me).active
        side = torch.where(view.sin_bearing >= 0.0, 1.0, -1.0)
        cos_crank, sin_crank = torch.cos(crank_angle_rad), side * torch.sin(crank_angle_rad)
        cos_error = view.cos_bearing * cos_crank + view.sin_bearing * sin_crank
        sin_error = view.sin_bearing * cos_crank - view.cos_bearing * sin_crank
        cos_error = torch.where(cranking, cos_error, view.cos_bearing)
        sin_error = torch.where(cranking, sin_error, view.sin_bearing)
        # Away from the missile is the opposite of its bearing.
        cos_error = torch.where(turn_out, -threat.view.cos_bearing, cos_error)
        sin_error = torch.where(turn_out, -threat.view.sin_bearing, sin_error)
        reach_m = fire_fraction * self.no_escape_range_m(own.speed_mps, enemy.speed_mps)
        fire = (view.range_m < reach_m) & (view.cos_bearing > self.cos_fire_cone)
        fire = fire & can_fire(params, state)[me]
        rudder = steer(cos_error, sin_error)
        return Command(rudder, torch.ones_like(rudder), fire), memory
