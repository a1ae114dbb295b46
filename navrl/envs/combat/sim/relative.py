"""What one aircraft sees of one enemy and of the missiles between them, in physical units, all (N,)."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import (
    CombatParams,
    CombatState,
    enemies_of,
    nearest_living,
    sides,
    split_motion,
)


class View(NamedTuple):
    """Geometry of another body, seen from the nose of the observer."""

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
    """One missile and how it sees, or is seen by, an aircraft; zeros count only where active."""

    active: Tensor  # bool, in the air and its target alive
    age_s: Tensor
    speed_mps: Tensor
    view: View
    motion: Motion
    target: Tensor  # int32, index of the aircraft it flies at


def look(observer: Motion, other: Motion) -> View:
    """The view from observer to other."""
    x, y = other.x_m - observer.x_m, other.y_m - observer.y_m
    range_m = torch.sqrt(x * x + y * y).clamp_min(1.0)
    inverse = 1.0 / range_m
    x, y = x * inverse, y * inverse
    vx = other.speed_mps * other.cos_heading - observer.speed_mps * observer.cos_heading
    vy = other.speed_mps * other.sin_heading - observer.speed_mps * observer.sin_heading
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


def aircraft(state: CombatState, index: int) -> Motion:
    """The motion of one aircraft, (N,)."""
    return Motion(*(field[index] for field in state.aircraft.motion))


def focal_index(params: CombatParams, state: CombatState, me: int) -> Tensor:
    """The place among the enemies of the nearest living one (0 when none is alive), int32 (N,)."""
    first = torch.zeros_like(state.decision)
    if params.team_size == 1:
        return first
    craft, other = state.aircraft, 1 - params.teams[me]
    enemies = split_motion(params, craft.motion)[other]
    return nearest_living(aircraft(state, me), enemies, sides(params, craft.alive)[other], first)


def focal_enemy(params: CombatParams, state: CombatState, me: int) -> Motion:
    """The motion of the nearest living enemy (of the first one when none is alive), (N,)."""
    place, enemies = focal_index(params, state, me), enemies_of(params, me)
    return Motion(*(picked(field, place, enemies) for field in state.aircraft.motion))


def picked(field: Tensor, place: Tensor, among: list[int]) -> Tensor:
    """The row of a field (A, N) at a place (N,) in the list of rows; selects vectorise, a gather does not."""
    chosen = field[among[0]]
    for number, row in enumerate(among[1:], start=1):
        chosen = torch.where(place == number, field[row], chosen)
    return chosen


def own_missile(params: CombatParams, state: CombatState, me: int) -> MissileView:
    """The own missile that is nearest to its living target; the view is the missile's."""
    channels = range(params.channels)
    return _nearest(params, state, [(me, k) for k in channels], None)


def incoming_missile(params: CombatParams, state: CombatState, me: int) -> MissileView:
    """The nearest missile that flies at this aircraft; the view is the aircraft's."""
    sources = [(a, k) for a in enemies_of(params, me) for k in range(params.channels)]
    return _nearest(params, state, sources, me)


def _nearest(
    params: CombatParams, state: CombatState, sources: list[tuple[int, int]], me: int | None
) -> MissileView:
    """The active missile with the least range among sources; seen from `me`, or seeing its target."""
    best = None
    for source in sources:
        candidate = _missile(params, state, source, me)
        if best is None:
            best = candidate
            continue
        closer = candidate.active & (~best.active | (candidate.view.range_m < best.view.range_m))
        best = _either(closer, candidate, best)
    assert best is not None, "an aircraft has at least one channel and one enemy"
    return best


def _either(mask: Tensor, chosen: Any, other: Any) -> Any:
    """Tensor by tensor: chosen where mask, else other."""
    if isinstance(chosen, Tensor):
        return torch.where(mask, chosen, other)
    pairs = zip(chosen, other, strict=True)
    return type(chosen)(*(_either(mask, a, b) for a, b in pairs))


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
