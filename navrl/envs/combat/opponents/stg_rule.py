"""`stg_rule`: flies by the space-time graph: shoots enemies that cannot escape, and stays where it can."""

from dataclasses import dataclass, field
from types import MappingProxyType

import torch

from navrl.envs.combat.opponents.base import Bounds, Memory, ThresholdPilot
from navrl.envs.combat.opponents.tactics import away_from, evade, steer, towards
from navrl.envs.combat.sim.geometry import aircraft, focal_enemy, incoming_missile, look
from navrl.envs.combat.sim.reach import ReachTable, reach_table
from navrl.envs.combat.sim.spacetime import best_escape
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command, can_fire, concatenated


@dataclass(eq=False, kw_only=True)
class StgRule(ThresholdPilot):
    """Two margins decide: the enemy's, if it launched now, and its own, if the enemy did."""

    least = MappingProxyType({"attack_margin_m": -1e9, "defence_margin_m": -1e9})

    attack_margin_m: Bounds
    defence_margin_m: Bounds
    turn_out_fraction: Bounds
    break_time_to_go_s: Bounds
    table: ReachTable | None = field(init=False, default=None)

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Build the table of the missiles' reach."""
        self.table = reach_table(params, device)

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Attack with a missile on the rail; without one go where it can escape."""
        if self.table is None:
            raise RuntimeError("StgRule has no table yet; call prepare(params, device) first")
        attack_m, defence_m, turn_out_fraction, break_s = memory
        own, enemy = aircraft(state, me), focal_enemy(params, state, me)
        # Both questions as one of twice the length: half the graph to compile.
        escape = best_escape(params, self.table, concatenated(own, enemy), concatenated(enemy, own))
        enemy_margin_m, own_margin_m = escape.margin_m.chunk(2)
        _, side = escape.side.chunk(2)
        view = look(own, enemy)
        away = away_from(view)
        along_line = torch.where(away.cos < 0.0, side, steer(away))
        ready = can_fire(params, state)[me]
        exposed = ~ready & (own_margin_m < defence_m)
        rudder = evade(
            params,
            incoming_missile(params, state, me),
            own.speed_mps,
            turn_out_fraction=turn_out_fraction,
            break_time_to_go_s=break_s,
            otherwise=torch.where(exposed, along_line, steer(towards(view))),
        )
        fire = ready & (enemy_margin_m < attack_m)
        return Command(rudder, torch.ones_like(rudder), fire), memory
