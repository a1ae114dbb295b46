"""One physics step of a fight: everybody is guided from the same instant, moves, and dies together.

Shapes: S aircraft on a side, K channels each, N envs; a tuple of two holds side 0 and side 1.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim import legacy
from navrl.envs.combat.sim import missile as missiles
from navrl.envs.combat.sim.flight import Body, Motion, fly
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.state import is_over, join, nearest_living
from navrl.envs.core.reductions import any_row


class Crafts(NamedTuple):
    """What a tick changes of one side's aircraft, fields (S, N)."""

    motion: Motion
    alive: Tensor
    rudder: tuple[Tensor, ...]  # where it moves at a finite rate; else it is the ordered one


class Shots(NamedTuple):
    """What a tick changes of one side's missiles, fields (S, K, N)."""

    motion: Motion
    flying: Tensor
    target: Tensor  # int32, index within the other side; of what has ended, whom it flew at last
    hit: Tensor  # in this decision, and so the next two
    ended: Tensor  # without a hit
    defeated: Tensor  # ended while its target was alive
    age_ticks: Tensor
    line_of_sight_rad: tuple[Tensor, ...]


class Orders(NamedTuple):
    """What a tick needs of one side and leaves alone."""

    rudder: Tensor  # (S, N), as commanded
    throttle: Tensor  # (S, N)
    rounds: Tensor  # int32 (S, N)


class Bodies(NamedTuple):
    """Everything that moves, by side."""

    crafts: tuple[Crafts, Crafts]
    shots: tuple[Shots, Shots]


Pair = tuple[Orders, Orders]


def tick(params: CombatParams, orders: Pair, bodies: Bodies) -> Bodies:
    """One physics step: everybody is guided from the same instant, then everybody moves and dies."""
    crafts, shots = bodies
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
        now = after.hit & aimed.flying  # what hit earlier hits nobody else
        struck.append(at_targets(params, after.target, now))
    living = [moved[me]._replace(alive=moved[me].alive & ~struck[1 - me]) for me in (0, 1)]
    return Bodies((living[0], living[1]), (flown[0], flown[1]))


def _fly_crafts(params: CombatParams, orders: Orders, crafts: Crafts, running: Tensor) -> Crafts:
    """A side's aircraft one tick later; the dead and the decided stand still."""
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
    """A side's missiles one tick later: flown, hit, or at their end."""
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
    """The rudder that the law asks for, and what it remembers."""
    if params.model == "legacy":
        return legacy.guidance(shots.motion, prey, shots.line_of_sight_rad[0], params.dt_s)
    if params.guidance_law == "legacy_gain":
        return missiles.legacy_guidance(shots.motion, prey), ()
    radius_m = params.missile.turn_radius_m
    return missiles.guidance(shots.motion, prey, params.navigation_gain, radius_m), ()


def _flown(
    params: CombatParams,
    body: Body,
    motion: Motion,
    rudder: Tensor,
    thrust_mps2: Tensor,
    free: Tensor,
) -> Motion:
    """The motion one tick later of who is free to move."""
    if params.model == "legacy":
        flown = legacy.fly(body, motion, rudder, thrust_mps2, params.dt_s)
        return missiles.select(free, flown, motion)
    return fly(body, motion, rudder, thrust_mps2, params.dt_s, free)


def _near(
    params: CombatParams, shot: Motion, prey: Motion, flown: Motion, prey_moved: Motion
) -> Tensor:
    """Whether the missile came within the hit radius in this tick; the legacy model looks at its end."""
    arrived = missiles.relative_position(flown, prey_moved)
    if params.model == "legacy":
        return arrived[0] ** 2 + arrived[1] ** 2 < params.hit_radius_m**2
    before = missiles.relative_position(shot, prey)
    return missiles.passed_within(params.hit_radius_m, before, arrived)


def _spent(params: CombatParams, flown: Motion, age_ticks: Tensor) -> Tensor:
    """Too slow, which the legacy model asks of a burning missile too, or too old."""
    slow = flown.speed_mps < params.self_destruct_speed_mps
    if params.model != "legacy":
        slow = slow & (age_ticks >= params.burn_ticks)
    return slow | (age_ticks >= params.max_age_ticks)


def targets(params: CombatParams, shots: Shots, foes: Crafts) -> Tensor:
    """Whom every missile flies at; with `retarget` the nearest living enemy once its target is dead."""
    if not params.retarget:
        return shots.target
    nearest = nearest_living(shots.motion, foes.motion, foes.alive, shots.target)
    turns = shots.flying & ~_pick(params, foes.alive, shots.target)
    return torch.where(turns, nearest, shots.target)


def at_targets(params: CombatParams, target: Tensor, flag: Tensor) -> Tensor:
    """Flags (S, K, N) of missiles, gathered at whom they fly at: bool (S, N) of the other side."""
    aimed = [any_row((flag & (target == e)).flatten(0, 1)) for e in range(params.team_size)]
    return join([row.unsqueeze(0) for row in aimed])


def _pick(params: CombatParams, field: Tensor, target: Tensor) -> Tensor:
    """Of the enemies' field (S, N) the row that `target` names; selects vectorise, a gather does not."""
    picked = field[0].expand_as(target)
    for enemy in range(1, params.team_size):
        picked = torch.where(target == enemy, field[enemy], picked)
    return picked
