"""The ego-centric observation: rows that do not change when the picture turns or moves, clipped to +-5.

 0 .. 5   own: speed, rudder, load, rounds left, may fire, time left
 6 .. 15  nearest living enemy: log range, range, sine and cosine of its bearing off the own nose, sine and
          cosine of its heading minus the own, speed, closing speed, line-of-sight rate, alive
16 .. 23  own missile nearest to its target, which is alive: in the air, age, speed, range, sine and cosine of
          its heading off the line to the target, closing speed, time to go
24 .. 31  nearest missile at this aircraft: the same, but sine and cosine of its bearing off the own nose
32 .. 47  with `spacetime`: STG_NAMES in navrl/envs/combat/observations/spacetime.py
The mirror image negates 1, 8, 10, 14, 20 and 28, and exchanges 32 and 33, 36 and 37, 40 and 41, 44 and 45.
"""

import torch
from torch import Tensor

from navrl.envs.combat.observations.spacetime import LIMIT, STG_NAMES, stg_rows
from navrl.envs.combat.sim.flight import GRAVITY_MPS2
from navrl.envs.combat.sim.geometry import (
    MissileView,
    View,
    aircraft,
    focal_enemy,
    incoming_missile,
    look,
    own_missile,
)
from navrl.envs.combat.sim.reach import ReachTable, reach_table
from navrl.envs.combat.sim.state import CombatParams, CombatState, can_fire, elapsed_s, sides
from navrl.envs.core.reductions import any_row

READS = CombatParams  # the constants that these observations need

EGO_SIZE = 32
GEOMETRY = (
    *("range [ln of 10 km]", "range [50 km]", "sine of the bearing", "cosine of the bearing"),
    *("sine of the heading off the own", "cosine of the heading off the own", "speed [400 m/s]"),
    *("closing speed [1000 m/s]", "line-of-sight rate [0.1 rad/s]"),
)
_SEEN = (
    *("in the air", "age [80 s]", "speed [1000 m/s]", "range [50 km]"),
    *("sine of the {0}", "cosine of the {0}", "closing speed [1000 m/s]", "time to go [60 s]"),
)
EGO_NAMES = (
    *("own speed [400 m/s]", "own rudder", "own load [10 g]", "own rounds left [a full rack]"),
    *("may fire", "time left [time limit]"),
    *(f"nearest enemy: {name}" for name in (*GEOMETRY, "alive")),
    *(f"own missile: {name.format('heading off the line to its target')}" for name in _SEEN),
    *(f"missile at this aircraft: {name.format('bearing')}" for name in _SEEN),
)
_DISTANCE, _TIME, _SPEED = "[10 km]", "[60 s]", "[1000 m/s]"  # of the space-time graph
_UNITS = {"critical": _TIME, "speed": _SPEED}


class Ego:
    """The leaf `ego`: 32 numbers, or 48 with the space-time graph."""

    def __init__(self, *, spacetime: bool) -> None:
        self.spacetime = spacetime
        self.leaves = {"ego": (EGO_SIZE + spacetime * len(STG_NAMES),)}
        graph = [f"{name} {_UNITS.get(name.rpartition('_')[2], _DISTANCE)}" for name in STG_NAMES]
        self.names = {"ego": [*EGO_NAMES, *(graph if spacetime else ())]}
        self._table: ReachTable | None = None

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Build the table of the missiles' reach, for the space-time graph."""
        if self.spacetime:
            self._table = reach_table(params, device)

    def rows(self, params: CombatParams, state: CombatState, me: int) -> dict[str, Tensor]:
        """Return the leaf ego (32 or 48, N)."""
        rows = ego_rows(params, state, me)
        if self.spacetime:
            if self._table is None:
                raise RuntimeError(
                    "Ego got no table; call prepare(params, device) before rows(...)"
                )
            rows += stg_rows(params, self._table, state, me)
        return {"ego": torch.stack(rows)}


def ego_rows(params: CombatParams, state: CombatState, me: int) -> list[Tensor]:
    """Return the EGO_SIZE features of aircraft `me`, each (N,)."""
    enemy = focal_enemy(params, state, me)
    enemies_alive = sides(params, state.aircraft.alive)[1 - params.teams[me]]
    rows = [
        *_own(params, state, me),
        *geometry(look(aircraft(state, me), enemy), enemy.speed_mps),
        any_row(enemies_alive).float(),
        *_missile(own_missile(params, state, me), seen_by_target=False),
        *_missile(incoming_missile(params, state, me), seen_by_target=True),
    ]
    return [row.clamp(-LIMIT, LIMIT) for row in rows]


def geometry(view: View, speed_mps: Tensor) -> list[Tensor]:
    """Return nine rows about another aircraft; the mirror image negates 2, 4 and 8."""
    return [
        torch.log(view.range_m / 10_000.0),
        view.range_m / 50_000.0,
        view.sin_bearing,
        view.cos_bearing,
        view.sin_aspect,
        view.cos_aspect,
        speed_mps / 400.0,
        view.closing_mps / 1000.0,
        view.line_of_sight_rate_radps * 10.0,
    ]


def _own(params: CombatParams, state: CombatState, me: int) -> list[Tensor]:
    speed, rudder = state.aircraft.motion.speed_mps[me], state.aircraft.rudder[me]
    load = speed * speed * rudder.abs() / (10.0 * params.fighter.turn_radius_m * GRAVITY_MPS2)
    if params.fighter.max_load_g is not None:  # more is commanded than is flown
        load = load.clamp_max(params.fighter.max_load_g / 10.0)
    return [
        speed / 400.0,
        rudder,
        load,
        state.aircraft.rounds[me].float() / params.rounds,
        can_fire(params, state)[me].float(),
        1.0 - elapsed_s(params, state) / params.time_limit_s,
    ]


def _missile(missile: MissileView, *, seen_by_target: bool) -> list[Tensor]:
    """Return eight rows, zero where no missile flies.

    An own missile looks at its target: minus that bearing is its heading off the line of sight.
    """
    view = missile.view
    sign = 1.0 if seen_by_target else -1.0
    rows = [
        torch.ones_like(missile.age_s),
        missile.age_s / 80.0,
        missile.speed_mps / 1000.0,
        view.range_m / 50_000.0,
        sign * view.sin_bearing,
        view.cos_bearing,
        view.closing_mps / 1000.0,
        view.time_to_go_s / 60.0,
    ]
    return [row * missile.active for row in rows]
