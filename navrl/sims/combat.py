"""Planar air combat: one `advance` is one decision of everybody.

Launches are resolved once, then `ticks` physics steps follow in which all bodies are guided from the same
instant, move, and die together. Shapes: S aircraft on a side, K channels each, N envs. The two sides are
kept apart: one against one is then made of (1, N) rows, whose loops a compiler runs over N alone, so that
whole ticks become one loop; an aircraft axis of two costs ten times more.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.sims import legacy
from navrl.sims import missile as missiles
from navrl.sims.combat_params import CombatParams
from navrl.sims.combat_state import (
    Action,
    Aircraft,
    CombatState,
    Events,
    Missiles,
    any_row,
    is_over,
    join,
    join_motion,
    sides,
    split_motion,
)
from navrl.sims.flight import Motion, fly, renormalised
from navrl.sims.launch import Armed, launch

# What became of a missile channel during a decision.
IDLE, FLYING, HIT, DEFEATED, LOST = 0, 1, 2, 3, 4  # lost: its target was dead already


class Crafts(NamedTuple):
    """What a tick changes of one side's aircraft, fields (S, N)."""

    motion: Motion
    alive: Tensor
    rudder: tuple[Tensor, ...]  # where it moves at a finite rate; else it is the ordered one


class Shots(NamedTuple):
    """What a tick changes of one side's missiles, fields (S, K, N)."""

    motion: Motion
    fate: Tensor  # int32, one of the constants above
    age_ticks: Tensor
    line_of_sight_rad: tuple[Tensor, ...]


class Orders(NamedTuple):
    """What a tick needs of one side and leaves alone."""

    rudder: Tensor  # (S, N), as commanded
    thrust_mps2: Tensor  # (S, N)
    rounds: Tensor  # int32 (S, N)
    target: Tensor  # int32 (S, K, N), index within the other side


class Bodies(NamedTuple):
    """Everything that moves, by side."""

    crafts: tuple[Crafts, Crafts]
    shots: tuple[Shots, Shots]


def advance(params: CombatParams, state: CombatState, action: Action) -> tuple[CombatState, Events]:
    """The state one decision later, and what happened on the way."""
    orders, bodies, armed = begin(params, state, action)
    for _ in range(params.ticks):
        bodies = tick(params, orders, bodies)
    return end(params, state, orders, bodies, armed)


Pair = tuple[Orders, Orders]


def begin(
    params: CombatParams, state: CombatState, action: Action
) -> tuple[Pair, Bodies, tuple[Armed, Armed]]:
    """Resolve the launches, and lay out by side what moves."""
    armed = launch(params, state, action)
    motions = split_motion(params, state.aircraft.motion)
    alive = sides(params, state.aircraft.alive)
    rudder, held = sides(params, action.rudder), sides(params, state.aircraft.rudder)
    thrust_mps2 = sides(params, action.throttle * params.fighter.thrust_mps2)
    slow = params.rudder_rate_per_s is not None

    def crafts(me: int) -> Crafts:
        return Crafts(motions[me], alive[me], (held[me],) if slow else ())

    def shots(me: int) -> Shots:
        flying = armed[me].missiles
        fate = flying.active.to(torch.int32)
        return Shots(flying.motion, fate, flying.age_ticks, flying.line_of_sight_rad)

    def orders(me: int) -> Orders:
        return Orders(rudder[me], thrust_mps2[me], armed[me].rounds, armed[me].missiles.target)

    bodies = Bodies((crafts(0), crafts(1)), (shots(0), shots(1)))
    return (orders(0), orders(1)), bodies, armed


def tick(params: CombatParams, orders: Pair, bodies: Bodies) -> Bodies:
    """One physics step: everybody is guided from the same instant, then everybody moves and dies."""
    crafts, shots = bodies
    running = ~is_over(
        params,
        (crafts[0].alive, crafts[1].alive),
        (orders[0].rounds, orders[1].rounds),
        (shots[0].fate == FLYING, shots[1].fate == FLYING),
    )
    moved = (
        _fly_crafts(params, orders[0], crafts[0], running),
        _fly_crafts(params, orders[1], crafts[1], running),
    )
    flown, struck = [], []
    for me in (0, 1):
        target = _targets(params, orders[me], shots[me], crafts[1 - me])
        after = _fly_shots(params, target, shots[me], crafts[1 - me], moved[1 - me], running)
        flown.append(after)
        now = (after.fate == HIT) & (shots[me].fate == FLYING)  # what hit earlier hits nobody else
        struck.append(_at_targets(params, target, now))
    living = [moved[me]._replace(alive=moved[me].alive & ~struck[1 - me]) for me in (0, 1)]
    return Bodies((living[0], living[1]), (flown[0], flown[1]))


def end(
    params: CombatParams,
    state: CombatState,
    orders: Pair,
    bodies: Bodies,
    armed: tuple[Armed, Armed],
) -> tuple[CombatState, Events]:
    """The state after the last tick, and what happened since the first."""
    crafts, shots = bodies
    slow = params.rudder_rate_per_s is not None
    alive = join([side.alive for side in crafts])
    fate = join([side.fate for side in shots])
    aimed = [_targets(params, orders[me], shots[me], crafts[1 - me]) for me in (0, 1)]
    after = CombatState(
        aircraft=Aircraft(
            motion=renormalised(join_motion([side.motion for side in crafts])),
            rudder=join([s.rudder[0] for s in crafts] if slow else [o.rudder for o in orders]),
            throttle=join([side.thrust_mps2 for side in orders]) / params.fighter.thrust_mps2,
            alive=alive,
            rounds=join([side.rounds for side in orders]),
            cooldown=join([side.cooldown for side in armed]),
        ),
        missiles=Missiles(
            motion=renormalised(join_motion([side.motion for side in shots])),
            active=fate == FLYING,
            age_ticks=join([side.age_ticks for side in shots]),
            target=join([aimed[0] + params.team_size, aimed[1]]),
            line_of_sight_rad=tuple(
                join(pair) for pair in zip(*(s.line_of_sight_rad for s in shots), strict=True)
            ),
        ),
        decision=state.decision + 1,
    )
    dodged = [
        _at_targets(params, aimed[me], shots[me].fate == DEFEATED) | armed[me].dodged
        for me in (0, 1)
    ]
    ended = (fate == DEFEATED) | (fate == LOST)
    events = Events(
        launched=join([side.launched for side in armed]),
        hit=any_row((fate == HIT).transpose(0, 1)),
        killed=state.aircraft.alive & ~alive,
        missed=any_row(ended.transpose(0, 1)) | join([side.recycled for side in armed]),
        defeated=join(dodged[::-1]),
    )
    return after, events


def _fly_crafts(params: CombatParams, orders: Orders, crafts: Crafts, running: Tensor) -> Crafts:
    """A side's aircraft one tick later; the dead and the decided stand still."""
    rudder, kept = orders.rudder, crafts.rudder
    if params.rudder_rate_per_s is not None:
        step, before = params.rudder_rate_per_s * params.dt_s, kept[0]
        kept = (before + (rudder - before).clamp(-step, step),)
        rudder = 0.5 * (before + kept[0])  # on the way; its end would turn too far, with the tick
    move = legacy.fly if params.model == "legacy" else fly
    flown = move(params.fighter, crafts.motion, rudder, orders.thrust_mps2, params.dt_s)
    free = crafts.alive & running
    return Crafts(missiles.select(free, flown, crafts.motion), crafts.alive, kept)


def _fly_shots(
    params: CombatParams,
    target: Tensor,
    shots: Shots,
    foes: Crafts,
    foes_moved: Crafts,
    running: Tensor,
) -> Shots:
    """A side's missiles one tick later: flown, hit, or at their end."""
    prey = Motion(*(_pick(params, field, target) for field in foes.motion))
    prey_moved = Motion(*(_pick(params, field, target) for field in foes_moved.motion))
    prey_alive = _pick(params, foes.alive, target)
    live = (shots.fate == FLYING) & running
    law, remembered = _guided(params, shots, prey)
    rudder = torch.where(prey_alive, law, 0.0)
    burning = shots.age_ticks < params.burn_ticks
    thrust = torch.where(burning, params.missile.thrust_mps2, 0.0)
    move = legacy.fly if params.model == "legacy" else fly
    flown = move(params.missile, shots.motion, rudder, thrust, params.dt_s)
    flown = missiles.select(live, flown, shots.motion)
    near = _miss_squared(params, shots.motion, prey, flown, prey_moved) < params.hit_radius_m**2
    hit = live & prey_alive & near
    age = shots.age_ticks + live.to(torch.int32)
    ended = live & ~hit & _spent(params, flown, age)
    fate = torch.where(hit, HIT, shots.fate)
    fate = torch.where(ended, torch.where(prey_alive, DEFEATED, LOST), fate)
    return Shots(flown, fate, age, remembered)


def _guided(params: CombatParams, shots: Shots, prey: Motion) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The rudder that the law asks for, and what it remembers."""
    if params.model == "legacy":
        return legacy.guidance(shots.motion, prey, shots.line_of_sight_rad[0], params.dt_s)
    if params.guidance_law == "legacy_gain":
        return missiles.legacy_guidance(shots.motion, prey), ()
    radius_m = params.missile.turn_radius_m
    return missiles.guidance(shots.motion, prey, params.navigation_gain, radius_m), ()


def _miss_squared(
    params: CombatParams, shot: Motion, prey: Motion, flown: Motion, prey_moved: Motion
) -> Tensor:
    """Squared distance that counts as the miss of this tick, m^2."""
    arrived = missiles.relative_position(flown, prey_moved)
    if params.model == "legacy":
        return arrived[0] ** 2 + arrived[1] ** 2
    return missiles.swept_miss_squared(missiles.relative_position(shot, prey), arrived)


def _spent(params: CombatParams, flown: Motion, age_ticks: Tensor) -> Tensor:
    """Too slow, which the legacy model asks of a burning missile too, or too old."""
    slow = flown.speed_mps < params.self_destruct_speed_mps
    if params.model != "legacy":
        slow = slow & (age_ticks >= params.burn_ticks)
    return slow | (age_ticks >= params.max_age_ticks)


def _targets(params: CombatParams, orders: Orders, shots: Shots, foes: Crafts) -> Tensor:
    """Whom every missile flies at; with `retarget` the nearest living enemy once its target is dead."""
    target = orders.target
    if not params.retarget:
        return target
    least = torch.full_like(shots.motion.x_m, torch.inf)
    nearest = target
    for enemy in range(params.team_size):
        prey = Motion(*(field[enemy] for field in foes.motion))
        x, y = missiles.relative_position(shots.motion, prey)
        square = torch.where(foes.alive[enemy], x * x + y * y, torch.inf)
        nearest = torch.where(square < least, enemy, nearest)
        least = torch.minimum(least, square)
    return torch.where(_pick(params, foes.alive, target), target, nearest)


def _at_targets(params: CombatParams, target: Tensor, flag: Tensor) -> Tensor:
    """Flags (S, K, N) of missiles, gathered at whom they fly at: bool (S, N) of the other side."""
    aimed = [any_row((flag & (target == e)).flatten(0, 1)) for e in range(params.team_size)]
    return join([row.unsqueeze(0) for row in aimed])


def _pick(params: CombatParams, field: Tensor, target: Tensor) -> Tensor:
    """Of the enemies' field (S, N) the row that `target` names; selects vectorise, a gather does not."""
    picked = field[0].expand_as(target)
    for enemy in range(1, params.team_size):
        picked = torch.where(target == enemy, field[enemy], picked)
    return picked
