"""The simulator's step: one `advance` is one decision of everybody.

Launches are resolved once, then `ticks` physics steps follow in which everything is guided from the same
instant, moves, and dies together. Shapes: S aircraft on a side, K missile channels each, N envs; a tuple of
two holds side 0 and side 1. The two sides are kept apart: one against one is then made of (1, N) rows, whose
loops a compiler runs over N alone, so that whole ticks become one loop; an aircraft axis of two costs ten
times more.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim import legacy
from navrl.envs.combat.sim.flight import Airframe, Motion, fly, renormalised
from navrl.envs.combat.sim.geometry import relative_position
from navrl.envs.combat.sim.missile import Armed, guidance, launch, legacy_guidance, passed_within
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.state import (
    Action,
    Aircraft,
    CombatState,
    Events,
    Missiles,
    is_over,
    join,
    nearest_living,
    select,
    sides,
    split_motion,
)
from navrl.envs.core.compiling import one_node
from navrl.envs.core.reductions import any_row


class Crafts(NamedTuple):
    """Everything that a tick changes of one side's aircraft, fields (S, N)."""

    motion: Motion
    alive: Tensor
    rudder: tuple[Tensor, ...]  # where it moves at a finite rate; else it is the ordered one


class Shots(NamedTuple):
    """Everything that a tick changes of one side's missiles, fields (S, K, N)."""

    motion: Motion
    flying: Tensor
    target: Tensor  # int32, index within the other side; of what has ended, its last target
    hit: Tensor  # in this decision, and so the next two
    ended: Tensor  # without a hit
    defeated: Tensor  # ended while its target was alive
    age_ticks: Tensor
    line_of_sight_rad: tuple[Tensor, ...]


class Orders(NamedTuple):
    """Everything that a tick needs of one side and leaves alone."""

    rudder: Tensor  # (S, N), as commanded
    throttle: Tensor  # (S, N)
    rounds: Tensor  # int32 (S, N)


class Vehicles(NamedTuple):
    """Everything that moves, by side."""

    crafts: tuple[Crafts, Crafts]
    shots: tuple[Shots, Shots]


Pair = tuple[Orders, Orders]


def advance(
    params: CombatParams,
    state: CombatState,
    action: Action,
    joined: Callable[[Sequence[Tensor]], Any] = join,
) -> tuple[CombatState, Events]:
    """Return the state one decision later, and the events on the way; `joined`: see `end`."""
    orders, vehicles, armed = begin(params, state, action)
    for _ in range(params.ticks):
        vehicles = _tick(params, orders, vehicles)
    return end(params, state, orders, vehicles, armed, joined)


def begin(
    params: CombatParams, state: CombatState, action: Action
) -> tuple[Pair, Vehicles, tuple[Armed, Armed]]:
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

    vehicles = Vehicles((crafts(0), crafts(1)), (shots(0), shots(1)))
    return (orders(0), orders(1)), vehicles, armed


def end(
    params: CombatParams,
    state: CombatState,
    orders: Pair,
    vehicles: Vehicles,
    armed: tuple[Armed, Armed],
    joined: Callable[[Sequence[Tensor]], Any] = join,
) -> tuple[CombatState, Events]:
    """Return the state after the last tick, and the events since the first.

    Every field of both is `joined` from that of side 0 and that of side 1.
    """
    crafts, shots = vehicles
    slow = params.rudder_rate_per_s is not None
    aimed = [targets(params, shots[me], crafts[1 - me]) for me in (0, 1)]

    def motion(sides: Sequence[Crafts | Shots]) -> Motion:
        fields = zip(*(renormalised(side.motion) for side in sides), strict=True)
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
    return after, _events(params, state, vehicles, armed, aimed, joined)


def _events(
    params: CombatParams,
    state: CombatState,
    vehicles: Vehicles,
    armed: tuple[Armed, Armed],
    aimed: Sequence[Tensor],
    joined: Callable[[Sequence[Tensor]], Any],
) -> Events:
    crafts, shots = vehicles
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


# ---- one physics step ------------------------------------------------------------------------------


def tick(params: CombatParams, orders: Pair, vehicles: Vehicles) -> Vehicles:
    """Take one physics step: everything is guided from the same instant, then moves and dies."""
    crafts, shots = vehicles
    running = ~is_over(
        params,
        (crafts[0].alive, crafts[1].alive),
        (orders[0].rounds, orders[1].rounds),
        (shots[0].flying, shots[1].flying),
    )
    moved = (
        _fly_crafts(params, orders[0], crafts[0], running),
        _fly_crafts(params, orders[1], crafts[1], running),
    )
    flown, struck = [], []
    for me in (0, 1):
        aimed = shots[me]._replace(target=targets(params, shots[me], crafts[1 - me]))
        after = _fly_shots(params, aimed, crafts[1 - me], moved[1 - me], running)
        flown.append(after)
        now = after.hit & aimed.flying  # a missile that hit earlier hits nothing else
        struck.append(at_targets(params, after.target, now))
    living = [moved[me]._replace(alive=moved[me].alive & ~struck[1 - me]) for me in (0, 1)]
    return Vehicles((living[0], living[1]), (flown[0], flown[1]))


# Dynamo need not interpret a tick's Python ten times over to find the same operations.
_tick = one_node(tick, CombatParams, Airframe, Orders, Vehicles, Crafts, Shots, Motion)


def _fly_crafts(params: CombatParams, orders: Orders, crafts: Crafts, running: Tensor) -> Crafts:
    """Return a side's aircraft one tick later; the dead and the decided stand still."""
    rudder, kept = orders.rudder, crafts.rudder
    if params.rudder_rate_per_s is not None:
        step, before = params.rudder_rate_per_s * params.dt_s, kept[0]
        kept = (before + (rudder - before).clamp(-step, step),)
        rudder = 0.5 * (before + kept[0])  # on the way; its end would turn too far, with the tick
    thrust_mps2 = orders.throttle * params.fighter.thrust_mps2
    free = crafts.alive & running
    flown = _flown(params, params.fighter, crafts.motion, rudder, thrust_mps2, free)
    return Crafts(flown, crafts.alive, kept)


def _fly_shots(
    params: CombatParams, shots: Shots, foes: Crafts, foes_moved: Crafts, running: Tensor
) -> Shots:
    """Return a side's missiles one tick later: flown, hit, or at their end."""
    prey = Motion(*(_pick(params, field, shots.target) for field in foes.motion))
    prey_moved = Motion(*(_pick(params, field, shots.target) for field in foes_moved.motion))
    prey_alive = _pick(params, foes.alive, shots.target)
    live = shots.flying & running
    law, remembered = _guided(params, shots, prey)
    rudder = torch.where(prey_alive, law, 0.0)
    burning = shots.age_ticks < params.burn_ticks
    thrust = torch.where(burning, params.missile.thrust_mps2, 0.0)
    flown = _flown(params, params.missile, shots.motion, rudder, thrust, live)
    hit = live & prey_alive & _near(params, shots.motion, prey, flown, prey_moved)
    age = shots.age_ticks + live.int()
    ended = live & ~hit & _spent(params, flown, age)
    return Shots(
        motion=flown,
        flying=shots.flying & ~(hit | ended),
        target=shots.target,
        hit=shots.hit | hit,
        ended=shots.ended | ended,
        defeated=shots.defeated | (ended & prey_alive),
        age_ticks=age,
        line_of_sight_rad=remembered,
    )


def _guided(params: CombatParams, shots: Shots, prey: Motion) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the rudder that the law demands, and what it remembers."""
    if params.model == "legacy":
        return legacy.guidance(shots.motion, prey, shots.line_of_sight_rad[0], params.dt_s)
    if params.guidance_law == "legacy_gain":
        return legacy_guidance(shots.motion, prey), ()
    radius_m = params.missile.turn_radius_m
    return guidance(shots.motion, prey, params.navigation_gain, radius_m), ()


def _flown(
    params: CombatParams,
    airframe: Airframe,
    motion: Motion,
    rudder: Tensor,
    thrust_mps2: Tensor,
    free: Tensor,
) -> Motion:
    """Return the motion one tick later of those that are free to move."""
    if params.model == "legacy":
        flown = legacy.fly(airframe, motion, rudder, thrust_mps2, params.dt_s)
        return select(free, flown, motion)
    return fly(airframe, motion, rudder, thrust_mps2, params.dt_s, free)


def _near(
    params: CombatParams, shot: Motion, prey: Motion, flown: Motion, prey_moved: Motion
) -> Tensor:
    """Test whether the missile came within the hit radius; the legacy model looks at the tick's end only."""
    arrived = relative_position(flown, prey_moved)
    if params.model == "legacy":
        return arrived[0] ** 2 + arrived[1] ** 2 < params.hit_radius_m**2
    before = relative_position(shot, prey)
    return passed_within(params.hit_radius_m, before, arrived)


def _spent(params: CombatParams, flown: Motion, age_ticks: Tensor) -> Tensor:
    """Test whether a missile is too old or too slow; only the legacy model ends a slow one that burns."""
    slow = flown.speed_mps < params.self_destruct_speed_mps
    if params.model != "legacy":
        slow = slow & (age_ticks >= params.burn_ticks)
    return slow | (age_ticks >= params.max_age_ticks)


def targets(params: CombatParams, shots: Shots, foes: Crafts) -> Tensor:
    """Return every missile's target; with `retarget` the nearest living enemy once its target is dead."""
    if not params.retarget:
        return shots.target
    nearest = nearest_living(shots.motion, foes.motion, foes.alive, shots.target)
    turns = shots.flying & ~_pick(params, foes.alive, shots.target)
    return torch.where(turns, nearest, shots.target)


def at_targets(params: CombatParams, target: Tensor, flag: Tensor) -> Tensor:
    """Gather flags (S, K, N) of missiles at their targets: bool (S, N) of the other side."""
    aimed = [any_row((flag & (target == e)).flatten(0, 1)) for e in range(params.team_size)]
    return join([row.unsqueeze(0) for row in aimed])


def _pick(params: CombatParams, field: Tensor, target: Tensor) -> Tensor:
    """Return the row of the enemies' field (S, N) that `target` names; selects vectorise, gathers do not."""
    picked = field[0].expand_as(target)
    for enemy in range(1, params.team_size):
        picked = torch.where(target == enemy, field[enemy], picked)
    return picked
