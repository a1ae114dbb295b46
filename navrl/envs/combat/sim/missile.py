"""Missiles: guidance laws, the swept hit test, and launches.

Launches are resolved once, at the start of a decision, for both sides at the same instant.
Shapes: S aircraft on a side, K missile channels each, N envs.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim import legacy
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.geometry import relative_position, relative_velocity
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.state import (
    Action,
    CombatState,
    Missiles,
    decided,
    is_ready,
    nearest_living,
    requested_or,
    select,
    sides,
    split_motion,
)
from navrl.envs.core.reductions import any_row


def guidance(missile: Motion, target: Motion, gain: float, turn_radius_m: float) -> Tensor:
    """Compute the rudder of true proportional navigation from the positions before the tick."""
    turn, square = _line_of_sight_turn(missile, target)
    # One division for turn / square (the rate of the line of sight) and for 1 / speed.
    square_speed = square.clamp_min(1.0) * missile.speed_mps.clamp_min(1.0)
    return (turn * (gain * turn_radius_m) / square_speed).clamp(-1.0, 1.0)


def legacy_guidance(missile: Motion, target: Motion) -> Tensor:
    """Compute the original's rudder: in proportion to the line-of-sight rate, at any speed."""
    turn, square = _line_of_sight_turn(missile, target)
    return (legacy.GAIN_S * turn / square.clamp_min(1.0)).clamp(-1.0, 1.0)


def _line_of_sight_turn(missile: Motion, target: Motion) -> tuple[Tensor, Tensor]:
    """Return the cross product of relative position and velocity, and the squared distance."""
    x, y = relative_position(missile, target)
    vx, vy = relative_velocity(missile, target)
    return x * vy - y * vx, x * x + y * y


def passed_within(
    radius_m: float, before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor]
) -> Tensor:
    """Test whether the relative chord of one tick comes closer than radius_m to the target.

    Without a division: where the closest point lies between the ends it is the distance of the chord's
    line that counts, cross / length, else that of the nearer end.
    """
    reach = radius_m**2
    x, y = before
    dx, dy = after[0] - x, after[1] - y
    along, cross = -(x * dx + y * dy), x * dy - y * dx
    length_squared = dx * dx + dy * dy
    between = (along > 0.0) & (along < length_squared)
    crossed = between & (cross * cross < reach * length_squared)
    return crossed | (x * x + y * y < reach) | (after[0] ** 2 + after[1] ** 2 < reach)


# ---- launches --------------------------------------------------------------------------------------


class Armed(NamedTuple):
    """One side after its launches."""

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
    """Launch a missile from every aircraft that may fire and wants to."""
    running = ~decided(params, state)
    fire = [wants & running for wants in sides(params, action.fire)]
    if params.resolve_in_flight:  # then there may be no enemy left
        living = [any_row(side) for side in sides(params, state.aircraft.alive)]
        fire = [fire[0] & living[1], fire[1] & living[0]]
    requested = (None, None) if action.target is None else sides(params, action.target)
    red, blue = _side(params, state, 0), _side(params, state, 1)
    return _launch(params, red, fire[0], requested[0]), _launch(params, blue, fire[1], requested[1])


def launched_from(carrier: Motion, offset_m: float) -> Motion:
    """Return the motion of a missile `offset_m` ahead of its carrier, with the carrier's velocity."""
    return carrier._replace(
        x_m=carrier.x_m + offset_m * carrier.cos_heading,
        y_m=carrier.y_m + offset_m * carrier.sin_heading,
    )


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


def _launch(params: CombatParams, side: _Side, fire: Tensor, requested: Tensor | None) -> Armed:
    old = side.missiles
    ready = is_ready(params, side.alive, side.rounds, side.cooldown, old.active)
    new = _channels(params, fire & ready, old)
    target = _target(params, side, requested)
    fresh = launched_from(side.motion, params.launch_offset_m)
    fresh = Motion(*(field.unsqueeze(1) for field in fresh))
    launched = any_row(new.transpose(0, 1))
    given_way = new & old.active
    aimed = [
        any_row((given_way & (old.target == e)).flatten(0, 1)) for e in range(params.team_size)
    ]
    return Armed(
        missiles=Missiles(
            motion=select(new, fresh, old.motion),
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
    """Return the channel (S, K, N) of each launch (S, N): the first free one, or the oldest missile's."""
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


def _target(params: CombatParams, side: _Side, requested: Tensor | None) -> Tensor:
    """Return the target of a launch (S, N): the living aircraft it names, else the nearest living one."""
    first = torch.zeros_like(side.rounds)
    if params.team_size == 1:
        return first
    nearest = nearest_living(side.motion, side.prey, side.prey_alive, first)
    return nearest if requested is None else requested_or(requested, side.prey_alive, nearest)


def _first_sight(
    params: CombatParams, side: _Side, new: Tensor, fresh: Motion, target: Tensor
) -> tuple[Tensor, ...]:
    """Return the legacy model's memory: a new missile begins with the line of sight that it has."""
    if params.model != "legacy":
        return ()
    sight = torch.zeros_like(fresh.x_m)
    for enemy in range(params.team_size):
        prey = Motion(*(field[enemy] for field in side.prey))
        chosen = (target == enemy).unsqueeze(1)
        sight = torch.where(chosen, legacy.line_of_sight_rad(fresh, prey), sight)
    return (torch.where(new, sight, side.missiles.line_of_sight_rad[0]),)
