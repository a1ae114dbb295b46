"""Planar air combat: one `advance` is one decision of everybody.

Launches are resolved once, then `ticks` physics steps follow in which all bodies are guided from the same
instant, move, and die together. Written over lists of (N,) tensors, one per body: every loop of a compiled
tick then runs over N alone and the ticks fuse; arrays with an aircraft axis cost six times more.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.sims import missile as missiles
from navrl.sims.combat_state import (
    Action,
    Aircraft,
    CombatParams,
    CombatState,
    Events,
    Missiles,
    enemies_of,
    is_over,
)
from navrl.sims.flight import Motion, fly, renormalised


class Craft(NamedTuple):
    """One aircraft of every env, fields (N,)."""

    motion: Motion
    rudder: Tensor
    thrust_mps2: Tensor
    alive: Tensor
    rounds: Tensor


class Shot(NamedTuple):
    """One missile channel of every env, fields (N,)."""

    motion: Motion
    active: Tensor
    age_ticks: Tensor
    target: Tensor


class Bodies(NamedTuple):
    """Everything that moves, and what has happened to it since the decision began."""

    crafts: list[Craft]
    shots: list[Shot]  # aircraft by aircraft, channel by channel
    events: list[Events]  # per aircraft, fields (N,)


def advance(params: CombatParams, state: CombatState, action: Action) -> tuple[CombatState, Events]:
    """The state one decision later, and what happened on the way."""
    bodies = begin(params, state, action)
    for _ in range(params.ticks):
        bodies = tick(params, bodies)
    return end(params, state, bodies)


def begin(params: CombatParams, state: CombatState, action: Action) -> Bodies:
    """Take the state apart and resolve the launches."""
    motions = _split(state.aircraft.motion, 1)
    crafts = [
        Craft(motion, rudder, throttle * params.fighter.thrust_mps2, alive, rounds)
        for motion, rudder, throttle, alive, rounds in zip(
            motions,
            action.rudder.unbind(0),
            action.throttle.unbind(0),
            state.aircraft.alive.unbind(0),
            state.aircraft.rounds.unbind(0),
            strict=True,
        )
    ]
    flying = state.missiles
    channels = zip(
        _split(flying.motion, 2),
        flying.active.flatten(0, 1).unbind(0),
        flying.age_ticks.flatten(0, 1).unbind(0),
        flying.target.flatten(0, 1).unbind(0),
        strict=True,
    )
    shots = [Shot(*channel) for channel in channels]
    running = ~_is_over(params, crafts, shots)
    nothing = torch.zeros_like(running)
    events = []
    for me, wish in enumerate(action.fire.unbind(0)):
        launched = wish & crafts[me].alive & (crafts[me].rounds > 0) & running
        free = _launch(params, crafts, shots, me, launched)
        launched = launched & free
        rounds = crafts[me].rounds - launched.to(
            torch.int32
        )  # also of an unlimited rack: it counts
        crafts[me] = crafts[me]._replace(rounds=rounds)
        events.append(Events(launched, nothing, nothing, nothing, nothing))
    return Bodies(crafts, shots, events)


def tick(params: CombatParams, bodies: Bodies) -> Bodies:
    """One physics step: everybody is guided from the same instant, then everybody moves and dies."""
    running = ~_is_over(params, bodies.crafts, bodies.shots)
    moved = [
        missiles.select(
            craft.alive & running,
            fly(params.fighter, craft.motion, craft.rudder, craft.thrust_mps2, params.dt_s),
            craft.motion,
        )
        for craft in bodies.crafts
    ]
    alive = [craft.alive for craft in bodies.crafts]
    events, shots = list(bodies.events), []
    for index, shot in enumerate(bodies.shots):
        carrier = index // params.channels
        flown, hit, missed = _fly_shot(params, bodies.crafts, moved, shot, carrier, running)
        shots.append(flown)
        events[carrier] = events[carrier]._replace(
            hit=events[carrier].hit | hit, missed=events[carrier].missed | missed
        )
        for enemy in enemies_of(params, carrier):
            aimed = shot.target == enemy
            struck, escaped = hit & aimed, missed & aimed & bodies.crafts[enemy].alive
            alive[enemy] = alive[enemy] & ~struck
            events[enemy] = events[enemy]._replace(
                killed=events[enemy].killed | struck, defeated=events[enemy].defeated | escaped
            )
    crafts = [
        craft._replace(motion=motion, alive=lives)
        for craft, motion, lives in zip(bodies.crafts, moved, alive, strict=True)
    ]
    return Bodies(crafts, shots, events)


def end(params: CombatParams, state: CombatState, bodies: Bodies) -> tuple[CombatState, Events]:
    """Put the state together again."""
    shape = state.missiles.active.shape
    crafts, shots = bodies.crafts, bodies.shots
    after = CombatState(
        aircraft=Aircraft(
            motion=_join([craft.motion for craft in crafts]),
            rudder=torch.stack([craft.rudder for craft in crafts]),
            alive=torch.stack([craft.alive for craft in crafts]),
            rounds=torch.stack([craft.rounds for craft in crafts]),
        ),
        missiles=Missiles(
            motion=Motion(*(field.view(shape) for field in _join([s.motion for s in shots]))),
            active=torch.stack([shot.active for shot in shots]).view(shape),
            age_ticks=torch.stack([shot.age_ticks for shot in shots]).view(shape),
            target=torch.stack([shot.target for shot in shots]).view(shape),
        ),
        decision=state.decision + 1,
    )
    return after, Events(*(torch.stack(flags) for flags in zip(*bodies.events, strict=True)))


def _launch(
    params: CombatParams, crafts: list[Craft], shots: list[Shot], me: int, wanted: Tensor
) -> Tensor:
    """Put a missile into the first free channel of `me` where wanted; returns where one was free."""
    fresh = missiles.launched_from(crafts[me].motion, params.launch_offset_m)
    target = _nearest_enemy(params, crafts, me)
    taken = torch.zeros_like(wanted)
    for slot in range(me * params.channels, (me + 1) * params.channels):
        shot = shots[slot]
        new = wanted & ~shot.active & ~taken
        taken = taken | ~shot.active
        shots[slot] = Shot(
            motion=missiles.select(new, fresh, shot.motion),
            active=shot.active | new,
            age_ticks=torch.where(new, 0, shot.age_ticks),
            target=torch.where(new, target, shot.target),
        )
    return taken


def _fly_shot(
    params: CombatParams,
    crafts: list[Craft],
    moved: list[Motion],
    shot: Shot,
    carrier: int,
    running: Tensor,
) -> tuple[Shot, Tensor, Tensor]:
    """The missile one tick later, whether it hit, whether it ended without a hit."""
    enemies = enemies_of(params, carrier)
    prey = Motion(*_pick([crafts[e].motion for e in enemies], enemies, shot.target))
    prey_moved = Motion(*_pick([moved[e] for e in enemies], enemies, shot.target))
    (prey_alive,) = _pick([(crafts[e].alive,) for e in enemies], enemies, shot.target)
    law = missiles.guidance(shot.motion, prey, params.navigation_gain, params.missile.turn_radius_m)
    rudder = torch.where(prey_alive, law, 0.0)
    thrust = torch.where(shot.age_ticks < params.burn_ticks, params.missile.thrust_mps2, 0.0)
    live = shot.active & running
    flown = fly(params.missile, shot.motion, rudder, thrust, params.dt_s)
    flown = missiles.select(live, flown, shot.motion)
    miss_squared = missiles.swept_miss_squared(
        missiles.relative_position(shot.motion, prey),
        missiles.relative_position(flown, prey_moved),
    )
    hit = live & prey_alive & (miss_squared < params.hit_radius_m**2)
    age = shot.age_ticks + live.to(torch.int32)
    spent = (age >= params.burn_ticks) & (flown.speed_mps < params.self_destruct_speed_mps)
    missed = live & ~hit & (spent | (age >= params.max_age_ticks))
    return Shot(flown, shot.active & ~hit & ~missed, age, shot.target), hit, missed


def _pick(
    choices: list[tuple[Tensor, ...]], enemies: list[int], target: Tensor
) -> tuple[Tensor, ...]:
    """The fields of the enemy that `target` names; selects vectorise, a gather does not."""
    picked = choices[0]
    for enemy, fields in zip(enemies[1:], choices[1:], strict=True):
        aimed = target == enemy
        picked = tuple(torch.where(aimed, a, b) for a, b in zip(fields, picked, strict=True))
    return picked


def _nearest_enemy(params: CombatParams, crafts: list[Craft], me: int) -> Tensor:
    """Index of the nearest living aircraft of another team; int32 (N,)."""
    enemies = enemies_of(params, me)
    index = torch.full_like(crafts[me].rounds, enemies[0])
    least = torch.full_like(crafts[me].motion.x_m, torch.inf)
    for enemy in enemies if len(enemies) > 1 else []:
        x, y = missiles.relative_position(crafts[me].motion, crafts[enemy].motion)
        square = torch.where(crafts[enemy].alive, x * x + y * y, torch.inf)
        index = torch.where(square < least, enemy, index)
        least = torch.minimum(square, least)
    return index


def _is_over(params: CombatParams, crafts: list[Craft], shots: list[Shot]) -> Tensor:
    return is_over(
        params,
        [craft.alive for craft in crafts],
        [craft.rounds for craft in crafts],
        [shot.active for shot in shots],
    )


def _split(motion: Motion, axes: int) -> list[Motion]:
    fields = [field.flatten(0, axes - 1).unbind(0) for field in motion]
    return [Motion(*body) for body in zip(*fields, strict=True)]


def _join(motions: list[Motion]) -> Motion:
    upright = [renormalised(motion) for motion in motions]
    return Motion(*(torch.stack(fields) for fields in zip(*upright, strict=True)))
