"""Planar air combat: one `advance` is one decision of everybody.

Launches are resolved once, then `ticks` physics steps follow in which all bodies are guided from the same
instant, move, and die together. Shapes: S aircraft on a side, K channels each, N envs. The two sides are
kept apart: one against one is then made of (1, N) rows, whose loops a compiler runs over N alone, so that
whole ticks become one loop; an aircraft axis of two costs ten times more.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Body, Motion, renormalised
from navrl.envs.combat.sim.launch import Armed, launch
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.state import (
    Action,
    Aircraft,
    CombatState,
    Events,
    Missiles,
    join,
    sides,
    split_motion,
)
from navrl.envs.combat.sim.tick import (
    Bodies,
    Crafts,
    Orders,
    Pair,
    Shots,
    at_targets,
    targets,
    tick,
)
from navrl.envs.core.compiling import one_node
from navrl.envs.core.reductions import any_row

# Dynamo need not interpret a tick's Python ten times over to find the same operations.
_tick = one_node(tick, CombatParams, Body, Orders, Bodies, Crafts, Shots, Motion)


def advance(
    params: CombatParams,
    state: CombatState,
    action: Action,
    joined: Callable[[Sequence[Tensor]], Any] = join,
) -> tuple[CombatState, Events]:
    """The state one decision later, and what happened on the way; `joined`: see `end`."""
    orders, bodies, armed = begin(params, state, action)
    for _ in range(params.ticks):
        bodies = _tick(params, orders, bodies)
    return end(params, state, orders, bodies, armed, joined)


def begin(
    params: CombatParams, state: CombatState, action: Action
) -> tuple[Pair, Bodies, tuple[Armed, Armed]]:
    """Resolve the launches, and lay out by side what moves."""
    armed = launch(params, state, action)
    motions = split_motion(params, state.aircraft.motion)
    alive = sides(params, state.aircraft.alive)
    rudder, held = sides(params, action.rudder), sides(params, state.aircraft.rudder)
    throttle = sides(params, action.throttle)
    slow = params.rudder_rate_per_s is not None

    def crafts(me: int) -> Crafts:
        return Crafts(motions[me], alive[me], (held[me],) if slow else ())

    def shots(me: int) -> Shots:
        flying = armed[me].missiles
        none = torch.zeros_like(flying.active)
        return Shots(
            motion=flying.motion,
            flying=flying.active,
            target=flying.target,
            hit=none,
            ended=none,
            defeated=none,
            age_ticks=flying.age_ticks,
            line_of_sight_rad=flying.line_of_sight_rad,
        )

    def orders(me: int) -> Orders:
        return Orders(rudder[me], throttle[me], armed[me].rounds)

    bodies = Bodies((crafts(0), crafts(1)), (shots(0), shots(1)))
    return (orders(0), orders(1)), bodies, armed


def end(
    params: CombatParams,
    state: CombatState,
    orders: Pair,
    bodies: Bodies,
    armed: tuple[Armed, Armed],
    joined: Callable[[Sequence[Tensor]], Any] = join,
) -> tuple[CombatState, Events]:
    """The state after the last tick, and what happened since the first.

    Every field of both is `joined` from that of side 0 and that of side 1.
    """
    crafts, shots = bodies
    slow = params.rudder_rate_per_s is not None
    aimed = [targets(params, shots[me], crafts[1 - me]) for me in (0, 1)]

    def motion(bodies: Sequence[Crafts | Shots]) -> Motion:
        fields = zip(*(renormalised(side.motion) for side in bodies), strict=True)
        return Motion(*(joined(pair) for pair in fields))

    after = CombatState(
        aircraft=Aircraft(
            motion=motion(crafts),
            rudder=joined([s.rudder[0] for s in crafts] if slow else [o.rudder for o in orders]),
            throttle=joined([side.throttle for side in orders]),
            alive=joined([side.alive for side in crafts]),
            rounds=joined([side.rounds for side in orders]),
            cooldown=joined([side.cooldown for side in armed]),
        ),
        missiles=Missiles(
            motion=motion(shots),
            active=joined([side.flying for side in shots]),
            age_ticks=joined([side.age_ticks for side in shots]),
            target=joined([aimed[0] + params.team_size, aimed[1]]),
            line_of_sight_rad=tuple(
                joined(pair) for pair in zip(*(s.line_of_sight_rad for s in shots), strict=True)
            ),
        ),
        decision=state.decision + 1,
    )
    return after, _events(params, state, bodies, armed, aimed, joined)


def _events(
    params: CombatParams,
    state: CombatState,
    bodies: Bodies,
    armed: tuple[Armed, Armed],
    aimed: Sequence[Tensor],
    joined: Callable[[Sequence[Tensor]], Any],
) -> Events:
    crafts, shots = bodies
    before = sides(params, state.aircraft.alive)
    dodged = [at_targets(params, aimed[me], shots[me].defeated) | armed[me].dodged for me in (0, 1)]

    def by_carrier(flags: Tensor) -> Tensor:
        return any_row(flags.transpose(0, 1))

    return Events(
        launched=joined([side.launched for side in armed]),
        hit=joined([by_carrier(side.hit) for side in shots]),
        killed=joined([before[me] & ~crafts[me].alive for me in (0, 1)]),
        missed=joined([by_carrier(shots[me].ended) | armed[me].recycled for me in (0, 1)]),
        defeated=joined(dodged[::-1]),
    )
