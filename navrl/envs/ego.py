"""The ego-centric observation of air combat: what does not change when the picture turns or moves.

32 rows: own 6, enemy 10, own missile 8, incoming missile 8; clipped to +-5.
"""

import torch
from torch import Tensor

from navrl.sims.combat_state import CombatParams, CombatState, can_fire, elapsed_s, enemies_of
from navrl.sims.flight import GRAVITY_MPS2
from navrl.sims.relative import (
    MissileView,
    View,
    aircraft,
    incoming_missile,
    look,
    own_missile,
)

EGO_SIZE = 32
_LIMIT = 5.0


def ego_rows(params: CombatParams, state: CombatState, me: int) -> list[Tensor]:
    """The EGO_SIZE features of aircraft `me`, each (N,)."""
    enemy = enemies_of(params, me)[0]
    view = look(aircraft(state, me), aircraft(state, enemy))
    rows = [
        *_own(params, state, me),
        *_enemy(view, state.aircraft.motion.speed_mps[enemy], state.aircraft.alive[enemy]),
        *_missile(own_missile(params, state, me), seen_by_target=False),
        *_missile(incoming_missile(params, state, me), seen_by_target=True),
    ]
    return [row.clamp(-_LIMIT, _LIMIT) for row in rows]


def _own(params: CombatParams, state: CombatState, me: int) -> list[Tensor]:
    speed, rudder = state.aircraft.motion.speed_mps[me], state.aircraft.rudder[me]
    load = speed * speed * rudder.abs() / (10.0 * params.fighter.turn_radius_m * GRAVITY_MPS2)
    return [
        speed / 400.0,
        rudder,
        load,
        state.aircraft.rounds[me].float() / params.rounds,
        can_fire(params, state)[me].float(),
        1.0 - elapsed_s(params, state) / params.time_limit_s,
    ]


def _enemy(view: View, speed_mps: Tensor, alive: Tensor) -> list[Tensor]:
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
        alive.float(),
    ]


def _missile(missile: MissileView, *, seen_by_target: bool) -> list[Tensor]:
    """Eight rows, zero where no missile flies.

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
