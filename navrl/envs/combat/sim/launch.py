"""Launches: resolved once, at the start of a decision, for both sides at the same instant."""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim import legacy
from navrl.envs.combat.sim import missile as missiles
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.state import (
    Action,
    CombatState,
    Missiles,
    as_asked,
    decided,
    is_ready,
    nearest_living,
    sides,
    split_motion,
)
from navrl.envs.core.reductions import any_row


class Armed(NamedTuple):
    """One side after its launches; S aircraft, K channels."""

    missiles: Missiles  # (S, K, N), targets by their index within the other side
    rounds: Tensor  # int32 (S, N)
    cooldown: Tensor  # int32 (S, N), as it will be at the next decision
    launched: Tensor  # bool (S, N)
    recycled: Tensor  # bool (S, N), an old missile gave way to the new one
    dodged: Tensor  # bool (S, N) of the other side: a missile at it gave way


class _Side(NamedTuple):
    """One side before its launches, fields (S, N), and the other side's aircraft."""

    motion: Motion
    alive: Tensor
    rounds: Tensor
    cooldown: Tensor
    missiles: Missiles  # targets by their index within the other side
    prey: Motion
    prey_alive: Tensor


def launch(params: CombatParams, state: CombatState, action: Action) -> tuple[Armed, Armed]:
    """Everybody who may fire and wants to has a new missile in the air."""
    running = ~decided(params, state)
    fire = [wants & running for wants in sides(params, action.fire)]
    if params.resolve_in_flight:  # then there may be nobody left to fire at
        living = [any_row(side) for side in sides(params, state.aircraft.alive)]
        fire = [fire[0] & living[1], fire[1] & living[0]]
    asked = (None, None) if action.target is None else sides(params, action.target)
    red, blue = _side(params, state, 0), _side(params, state, 1)
    return _launch(params, red, fire[0], asked[0]), _launch(params, blue, fire[1], asked[1])


def _side(params: CombatParams, state: CombatState, me: int) -> _Side:
    craft, flying = state.aircraft, state.missiles
    motions = split_motion(params, craft.motion)
    return _Side(
        motion=motions[me],
        alive=sides(params, craft.alive)[me],
        rounds=sides(params, craft.rounds)[me],
        cooldown=sides(params, craft.cooldown)[me],
        missiles=Missiles(
            motion=split_motion(params, flying.motion)[me],
            active=sides(params, flying.active)[me],
            age_ticks=sides(params, flying.age_ticks)[me],
            target=sides(params, flying.target)[me] - (1 - me) * params.team_size,
            line_of_sight_rad=tuple(sides(params, f)[me] for f in flying.line_of_sight_rad),
        ),
        prey=motions[1 - me],
        prey_alive=sides(params, craft.alive)[1 - me],
    )


def _launch(params: CombatParams, side: _Side, fire: Tensor, asked: Tensor | None) -> Armed:
    old = side.missiles
    ready = is_ready(params, side.alive, side.rounds, side.cooldown, old.active)
    new = _channels(params, fire & ready, old)
    target = _target(params, side, asked)
    fresh = missiles.launched_from(side.motion, params.launch_offset_m)
    fresh = Motion(*(field.unsqueeze(1) for field in fresh))
    launched = any_row(new.transpose(0, 1))
    given_way = new & old.active
    aimed = [
        any_row((given_way & (old.target == e)).flatten(0, 1)) for e in range(params.team_size)
    ]
    return Armed(
        missiles=Missiles(
            motion=missiles.select(new, fresh, old.motion),
            active=old.active | new,
            age_ticks=torch.where(new, 0, old.age_ticks),
            target=torch.where(new, target.unsqueeze(1), old.target),
            line_of_sight_rad=_first_sight(params, side, new, fresh, target),
        ),
        rounds=side.rounds - launched.to(torch.int32),  # also of an unlimited rack: it counts
        cooldown=torch.where(launched, params.cooldown_decisions, (side.cooldown - 1).clamp_min(0)),
        launched=launched,
        recycled=any_row(given_way.transpose(0, 1)),
        dodged=torch.stack(aimed) & side.prey_alive,
    )


def _channels(params: CombatParams, wanted: Tensor, flying: Missiles) -> Tensor:
    """The channel (S, K, N) that each launch (S, N) takes: the first free one, or the oldest missile's."""
    new, taken = [], torch.zeros_like(wanted)
    for channel in range(params.channels):
        free = ~flying.active[:, channel] & ~taken
        new.append(wanted & free)
        taken = taken | free
    if params.channel_mode == "recycle":
        oldest = flying.age_ticks.amax(1)
        for channel in range(params.channels):
            gives_way = ~taken & (flying.age_ticks[:, channel] == oldest)
            new[channel] = new[channel] | (wanted & gives_way)
            taken = taken | gives_way
    return torch.stack(new, 1)


def _target(params: CombatParams, side: _Side, asked: Tensor | None) -> Tensor:
    """Whom a launch (S, N) aims at: the living aircraft it names, else the nearest living one."""
    first = torch.zeros_like(side.rounds)
    if params.team_size == 1:
        return first
    nearest = nearest_living(side.motion, side.prey, side.prey_alive, first)
    return nearest if asked is None else as_asked(asked, side.prey_alive, nearest)


def _first_sight(
    params: CombatParams, side: _Side, new: Tensor, fresh: Motion, target: Tensor
) -> tuple[Tensor, ...]:
    """The legacy model's memory: a new missile begins with the line of sight that it has."""
    if params.model != "legacy":
        return ()
    sight = torch.zeros_like(fresh.x_m)
    for enemy in range(params.team_size):
        prey = Motion(*(field[enemy] for field in side.prey))
        chosen = (target == enemy).unsqueeze(1)
        sight = torch.where(chosen, legacy.line_of_sight_rad(fresh, prey), sight)
    return (torch.where(new, sight, side.missiles.line_of_sight_rad[0]),)
