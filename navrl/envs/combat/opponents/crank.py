"""`crank`: shoots at the edge of the no-escape range, cranks while its missile flies, turns out in time."""

from dataclasses import dataclass

import torch

from navrl.envs.combat.opponents.base import Bounds, Memory, ThresholdPilot
from navrl.envs.combat.opponents.tactics import beside, evade, launch_reach_m, steer, towards
from navrl.envs.combat.sim.geometry import (
    aircraft,
    focal_enemy,
    incoming_missile,
    look,
    own_missile,
)
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command, can_fire, select


@dataclass(eq=False, kw_only=True)
class Crank(ThresholdPilot):
    """The strongest of the scripted pilots."""

    fire_fraction: Bounds
    fire_cone_rad: Bounds
    crank_angle_rad: Bounds
    turn_out_fraction: Bounds
    break_time_to_go_s: Bounds

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Evade, else crank, else pursue; fire whenever the enemy is in reach and in the cone."""
        fire_fraction, cos_fire_cone, crank_angle_rad, turn_out_fraction, break_s = memory
        own, enemy = aircraft(state, me), focal_enemy(params, state, me)
        view = look(own, enemy)
        cranked = beside(view, torch.cos(crank_angle_rad), torch.sin(crank_angle_rad))
        cranking = own_missile(params, state, me).active
        rudder = evade(
            params,
            incoming_missile(params, state, me),
            own.speed_mps,
            turn_out_fraction=turn_out_fraction,
            break_time_to_go_s=break_s,
            otherwise=steer(select(cranking, cranked, towards(view))),
        )
        reach_m = launch_reach_m(params, own.speed_mps, enemy.speed_mps, view)
        fire = (view.range_m < fire_fraction * reach_m) & (view.cos_bearing > cos_fire_cone)
        fire = fire & can_fire(params, state)[me]
        return Command(rudder, torch.ones_like(rudder), fire), memory
