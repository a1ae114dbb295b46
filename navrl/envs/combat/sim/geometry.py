"""Relative geometry: the view of an enemy or a missile from an aircraft, in physical units, all (N,)."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import (
    CombatParams,
    CombatState,
    enemies_of,
    nearest_living,
    select,
    sides,
    split_motion,
)


class View(NamedTuple):
    """Geometry of another aircraft or missile, seen from the nose of the observer."""

    range_m: Tensor
    cos_bearing: Tensor  # of the other, off the observer's nose; positive sine is to the left
    sin_bearing: Tensor
    cos_aspect: Tensor  # other's heading minus own heading
    sin_aspect: Tensor
    closing_mps: Tensor
    line_of_sight_rate_radps: Tensor

    @property
    def time_to_go_s(self) -> Tensor:
        """Range over closing speed, at most 60 s and 60 s when it does not close."""
        return (self.range_m / self.closing_mps.clamp_min(1.0)).clamp_max(60.0)


class MissileView(NamedTuple):
    """One missile and its view of, or as seen from, an aircraft; zeros count only where active."""

    active: Tensor  # bool, in the air and its target alive
    age_s: Tensor
    speed_mps: Tensor
    view: View
    motion: Motion
    target: Tensor  # int32, index of the aircraft it flies at


def look(observer: Motion, other: Motion) -> View:
    """Compute the view from observer to other."""
    x, y = relative_position(observer, other)
    range_m = torch.sqrt(x * x + y * y).clamp_min(1.0)
    inverse = 1.0 / range_m
    x, y = x * inverse, y * inverse
    vx, vy = relative_velocity(observer, other)
    cos, sin = observer.cos_heading, observer.sin_heading
    return View(
        range_m=range_m,
        cos_bearing=cos * x + sin * y,
        sin_bearing=cos * y - sin * x,
        cos_aspect=cos * other.cos_heading + sin * other.sin_heading,
        sin_aspect=cos * other.sin_heading - sin * other.cos_heading,
        closing_mps=-(x * vx + y * vy),
        line_of_sight_rate_radps=(x * vy - y * vx) * inverse,
    )


def relative_position(observer: Motion, other: Motion) -> tuple[Tensor, Tensor]:
    """Return the vector from observer to other, m."""
    return other.x_m - observer.x_m, other.y_m - observer.y_m


def relative_velocity(observer: Motion, other: Motion) -> tuple[Tensor, Tensor]:
    """Return the velocity of other minus that of observer, m/s."""
    return (
        other.speed_mps * other.cos_heading - observer.speed_mps * observer.cos_heading,
        other.speed_mps * other.sin_heading - observer.speed_mps * observer.sin_heading,
    )


def aircraft(state: CombatState, index: int) -> Motion:
    """Return the motion of one aircraft, (N,)."""
    return Motion(*(field[index] for field in state.aircraft.motion))


def focal_index(params: CombatParams, state: CombatState, me: int) -> Tensor:
    """Return the place among the enemies of the nearest living one (0 if none is alive), int32 (N,)."""
    first = torch.zeros_like(state.decision)
    if params.team_size == 1:
        return first
    craft, other = state.aircraft, 1 - params.teams[me]
    enemies = split_motion(params, craft.motion)[other]
    return nearest_living(aircraft(state, me), enemies, sides(params, craft.alive)[other], first)


def focal_enemy(params: CombatParams, state: CombatState, me: int) -> Motion:
    """Return the motion of the nearest living enemy (of the first one if none is alive), (N,)."""
    place, enemies = focal_index(params, state, me), enemies_of(params, me)
    return Motion(*(picked(field, place, enemies) for field in state.aircraft.motion))


def picked(field: Tensor, place: Tensor, among: list[int]) -> Tensor:
    """Return the row of a field (A, N) at a place (N,) in a list; selects vectorise, gathers do not."""
    chosen = field[among[0]]
    for number, row in enumerate(among[1:], start=1):
        chosen = torch.where(place == number, field[row], chosen)
    return chosen


def own_missile(params: CombatParams, state: CombatState, me: int) -> MissileView:
    """Return the own missile that is nearest to its living target; the view is the missile's."""
    return _nearest(params, state, [(me, channel) for channel in range(params.channels)], None)


def incoming_missile(params: CombatParams, state: CombatState, me: int) -> MissileView:
    """Return the nearest missile that flies at this aircraft; the view is the aircraft's."""
    channels = range(params.channels)
    sources = [(enemy, channel) for enemy in enemies_of(params, me) for channel in channels]
    return _nearest(params, state, sources, me)


def _nearest(
    params: CombatParams, state: CombatState, sources: list[tuple[int, int]], me: int | None
) -> MissileView:
    """Return the active missile at the least range among sources; seen from `me`, or seeing its target."""
    best, *others = [_missile(params, state, source, me) for source in sources]
    for other in others:
        closer = other.active & (~best.active | (other.view.range_m < best.view.range_m))
        best = select(closer, other, best)
    return best


def _missile(
    params: CombatParams, state: CombatState, source: tuple[int, int], me: int | None
) -> MissileView:
    carrier, channel = source
    flying = state.missiles
    motion = Motion(*(field[carrier, channel] for field in flying.motion))
    target = flying.target[carrier, channel]
    active = flying.active[carrier, channel]
    if me is None:
        enemies = enemies_of(params, carrier)
        place = target - enemies[0]
        prey = Motion(*(picked(field, place, enemies) for field in state.aircraft.motion))
        active = active & picked(state.aircraft.alive, place, enemies)
        view = look(motion, prey)
    else:
        active = active & (target == me)
        view = look(aircraft(state, me), motion)
    return MissileView(
        active=active,
        age_s=flying.age_ticks[carrier, channel].float() * params.dt_s,
        speed_mps=motion.speed_mps,
        view=view,
        motion=motion,
        target=target,
    )


# Abramowitz and Stegun 4.4.49: atan(x) / x for 0 <= x <= 1 in powers of x^2, within 2e-8.
_ARC_TANGENT = (
    *(1.0, -0.3333314528, 0.1999355085, -0.1420889944, 0.1065626393),
    *(-0.0752896400, 0.0429096138, -0.0161657367, 0.0028662257),
)


def angle_rad(cos: Tensor, sin: Tensor) -> Tensor:
    """Return the angle 0 .. pi of a direction (of any length) off the first axis, on either side of it.

    In arithmetic alone: the bits of atan2 depend on the batch size, and env i must be the same in any batch.
    """
    x, y = cos.abs(), sin.abs()
    slope = torch.minimum(x, y) / torch.maximum(x, y).clamp_min(1e-30)
    square = slope * slope
    series = torch.full_like(square, _ARC_TANGENT[-1])
    for coefficient in reversed(_ARC_TANGENT[:-1]):
        series = series * square + coefficient
    angle = slope * series
    angle = torch.where(y > x, 0.5 * math.pi - angle, angle)
    return torch.where(cos < 0.0, math.pi - angle, angle)
