"""What a missile in the air will do if its prey flies along a line: by the real guidance law.

An arc is one constant rudder: what the law asks for at its start, times the part of it that is left on
average when the line of sight comes to rest during the arc, so that a few long arcs do instead of many.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Motion, fly
from navrl.envs.combat.sim.lines import Line
from navrl.envs.combat.sim.missile import (
    LEGACY_GAIN_S,
    guidance,
    legacy_guidance,
    relative_position,
)
from navrl.envs.combat.sim.params import CombatParams

SHORTEST_ARC_S = 0.25
# Of `closest_approach`, which looks 40 s ahead at most.
ARCS, _PART_OF_TIME_TO_GO, _LONGEST_ARC_S = 16, 0.35, 2.5
_MOMENT_S = 1e-3  # a motor with less left is out


class Shot(NamedTuple):
    """A missile in the air."""

    motion: Motion
    age_s: Tensor


class Approach(NamedTuple):
    """The closest that a missile has come."""

    miss_m: Tensor
    time_s: Tensor
    speed_mps: Tensor


class Chase(NamedTuple):
    """A missile and its prey at one time, and the closest approach until then."""

    shot: Shot
    prey: Motion
    time_s: Tensor
    closest: Approach
    alive: Tensor  # bool, the missile


def closest_approach(params: CombatParams, shot: Shot, line: Line) -> Approach:
    """How close the missile comes to a prey on the line; fields broadcast."""
    fields = _packed(begun(params, shot, line))
    steering = line.rudder, line.thrust_mps2, line.turn_s
    for _ in range(ARCS):
        fields = _next_arc(params, fields, steering)
    return _unpacked(fields).closest


# A compiler takes the arc as a piece of its own, compiled once and called: ARCS copies of it would take
# minutes. Bare tensors go in and come out, no two of them the same, else it sees pieces of different make.
@torch.compiler.nested_compile_region
def _next_arc(
    params: CombatParams, fields: tuple[Tensor, ...], steering: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, ...]:
    chase = _unpacked(fields)
    longest_s = arc_s(chase, _PART_OF_TIME_TO_GO, _LONGEST_ARC_S)
    return _packed(pursued(params, chase, Line(chase.prey, *steering), longest_s))


def _packed(chase: Chase) -> tuple[Tensor, ...]:
    missile, age_s = chase.shot
    return (*missile, age_s, *chase.prey, chase.time_s, *chase.closest, chase.alive)


def _unpacked(fields: tuple[Tensor, ...]) -> Chase:
    shot = Shot(Motion(*fields[:5]), fields[5])
    return Chase(shot, Motion(*fields[6:11]), fields[11], Approach(*fields[12:15]), fields[15])


def begun(params: CombatParams, shot: Shot, line: Line) -> Chase:
    """The chase before its first arc."""
    shape = (shot.age_s + line.turn_s).shape

    # Tensors of their own: an arc that gets one under two names is another graph to a compiler.
    def wide(field: Tensor) -> Tensor:
        return field.expand(shape).clone(memory_format=torch.contiguous_format)

    missile, age_s = Motion(*map(wide, shot.motion)), wide(shot.age_s)
    prey, now_s = Motion(*map(wide, line.start)), torch.zeros_like(age_s)
    x, y = relative_position(missile, prey)
    closest = Approach(torch.sqrt(x * x + y * y), torch.zeros_like(age_s), wide(missile.speed_mps))
    alive = _lives(params, missile.speed_mps, age_s)
    return Chase(Shot(missile, age_s), prey, now_s, closest, alive)


def pursued(params: CombatParams, chase: Chase, line: Line, longest_s: Tensor) -> Chase:
    """The chase one arc later; the arc is shorter where the motor burns out before."""
    missile, age_s = chase.shot
    burn_s = params.burn_time_s - age_s
    burning = burn_s > _MOMENT_S
    dt_s = torch.where(burning, torch.minimum(longest_s, burn_s), longest_s)
    thrust_mps2 = torch.where(burning, params.missile.thrust_mps2, 0.0)
    rudder = _mean_rudder(params, missile, chase.prey, dt_s)
    flown = fly(params.missile, missile, rudder, thrust_mps2, dt_s)
    fled = _fled(params, chase, line, dt_s)
    passed = _passed(chase, flown, fled, dt_s)
    nearer = chase.alive & (passed.miss_m < chase.closest.miss_m)
    closest = (torch.where(nearer, a, b) for a, b in zip(passed, chase.closest, strict=True))
    return Chase(
        shot=Shot(flown, age_s + dt_s),
        prey=fled,
        time_s=chase.time_s + dt_s,
        closest=Approach(*closest),
        alive=chase.alive & _lives(params, flown.speed_mps, age_s + dt_s),
    )


def arc_s(chase: Chase, part_of_time_to_go: float, longest_s: float) -> Tensor:
    """A good length of the next arc: short where the missile is about to pass."""
    x, y = relative_position(chase.shot.motion, chase.prey)
    vx, vy = _relative_velocity(chase.shot.motion, chase.prey)
    square, closing = x * x + y * y, -(x * vx + y * vy)
    to_go_s = square / closing.clamp_min(1.0)
    return (part_of_time_to_go * to_go_s).clamp(SHORTEST_ARC_S, longest_s)


def _lives(params: CombatParams, speed_mps: Tensor, age_s: Tensor) -> Tensor:
    burning = age_s < params.burn_time_s - _MOMENT_S
    young = age_s < params.max_missile_age_s - _MOMENT_S
    return young & (burning | (speed_mps >= params.self_destruct_speed_mps))


def _mean_rudder(params: CombatParams, missile: Motion, prey: Motion, dt_s: Tensor) -> Tensor:
    """What the law asks for now, times its mean over an exponential decay at the law's own rate."""
    gain: float | Tensor = params.navigation_gain
    if params.guidance_law == "legacy_gain":
        rudder = legacy_guidance(missile, prey)
        gain = missile.speed_mps * (LEGACY_GAIN_S / params.missile.turn_radius_m)
    else:
        rudder = guidance(missile, prey, params.navigation_gain, params.missile.turn_radius_m)
    x, y = relative_position(missile, prey)
    vx, vy = _relative_velocity(missile, prey)
    ahead = (x * missile.cos_heading + y * missile.sin_heading) * missile.speed_mps
    decay = (gain * ahead + 2.0 * (x * vx + y * vy)) / (x * x + y * y).clamp_min(1.0)  # 1/s
    z = (decay * dt_s).clamp_min(0.0)
    mean = (1.0 + z * (1.0 / 6)) / (1.0 + z * (2.0 / 3 + z * (1.0 / 6)))  # of exp(-z t), 0 < t < 1
    return rudder * mean


def _fled(params: CombatParams, chase: Chase, line: Line, dt_s: Tensor) -> Motion:
    """The prey after dt_s more on its line; one arc, also where its turn ends on the way."""
    turning = ((line.turn_s - chase.time_s) / dt_s).clamp(0.0, 1.0)
    return fly(params.fighter, chase.prey, line.rudder * turning, line.thrust_mps2, dt_s)


def _passed(chase: Chase, flown: Motion, fled: Motion, dt_s: Tensor) -> Approach:
    """The closest approach within the arc, on the straight chord of the relative path."""
    missile = chase.shot.motion
    x, y = relative_position(missile, chase.prey)
    after_x, after_y = relative_position(flown, fled)
    dx, dy = after_x - x, after_y - y
    part = (-(x * dx + y * dy) / (dx * dx + dy * dy).clamp_min(1e-12)).clamp(0.0, 1.0)
    x, y = x + part * dx, y + part * dy
    return Approach(
        miss_m=torch.sqrt(x * x + y * y),
        time_s=chase.time_s + part * dt_s,
        speed_mps=torch.lerp(missile.speed_mps, flown.speed_mps, part),
    )


def _relative_velocity(missile: Motion, prey: Motion) -> tuple[Tensor, Tensor]:
    return (
        prey.speed_mps * prey.cos_heading - missile.speed_mps * missile.cos_heading,
        prey.speed_mps * prey.sin_heading - missile.speed_mps * missile.sin_heading,
    )
