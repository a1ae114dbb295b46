"""Prediction of the paths of aircraft and missiles from now on.

Aircraft fly lines in closed form, an arc and then a straight. The current line keeps rudder and throttle. An
escape line turns at full rudder to one side until it points away from a threat, as that stands now, and flees
straight at full throttle. Where the structure has a load limit, the rudder is what the limit leaves at the
first speed: the slower rest of a turn could be tighter.

Missiles chase a prey on such a line by the real guidance law, in arcs of one constant rudder each: what the
law demands at the start of the arc, times the part of it that is left on average when the line of sight comes
to rest during the arc, so that a few long arcs do instead of many.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim import legacy
from navrl.envs.combat.sim.flight import (
    Airframe,
    Motion,
    drag,
    fly,
    fly_far,
    fly_straight,
    powered_dash,
    rudder_limit,
    time_to_fly_s,
)
from navrl.envs.combat.sim.geometry import angle_rad, relative_position, relative_velocity
from navrl.envs.combat.sim.missile import guidance, legacy_guidance
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.state import select

LEFT, RIGHT = 1.0, -1.0  # the rudder of an escape to this side
SIDES = ("left", "right", "current")  # the order of `three_lines`
# An aircraft that points away this well does not fly a circle because it is a hair past it.
_POINTS_AWAY_RAD = math.acos(0.95)

SHORTEST_ARC_S = 0.25
# Of `closest_approach`, which looks 40 s ahead at most.
ARCS, _PART_OF_TIME_TO_GO, _LONGEST_ARC_S = 16, 0.35, 2.5
_MOMENT_S = 1e-3  # a motor with less left is out


# ---- lines of aircraft -----------------------------------------------------------------------------


class Steered(NamedTuple):
    """The motion of an aircraft and its last command."""

    motion: Motion
    rudder: Tensor
    throttle: Tensor


class Line(NamedTuple):
    """An arc from the start, then straight on; fields broadcast against each other."""

    start: Motion
    rudder: Tensor
    thrust_mps2: Tensor
    turn_s: Tensor  # when the arc ends


def current_line(airframe: Airframe, craft: Steered) -> Line:
    """Return the line on which rudder and throttle stay as they are, for ever."""
    full = _full_rudder(airframe, craft.motion.speed_mps)
    rudder = torch.minimum(torch.maximum(craft.rudder, -full), full)
    never = torch.full_like(rudder, math.inf)
    return Line(craft.motion, rudder, craft.throttle * airframe.thrust_mps2, never)


def escape_line(airframe: Airframe, motion: Motion, threat: Motion, side: float) -> Line:
    """Return the line of full rudder to the side until the heading points away, then straight."""
    x, y = relative_position(threat, motion)
    cos = motion.cos_heading * x + motion.sin_heading * y
    sin = side * (motion.cos_heading * y - motion.sin_heading * x)
    angle = angle_rad(cos, sin)
    around = torch.where(angle < _POINTS_AWAY_RAD, 0.0, 2.0 * math.pi - angle)
    turn_rad = torch.where(sin < 0.0, around, angle)
    rudder = _full_rudder(airframe, motion.speed_mps)
    path_m = turn_rad * airframe.turn_radius_m / rudder
    return Line(
        start=motion,
        rudder=side * rudder,
        thrust_mps2=torch.full_like(turn_rad, airframe.thrust_mps2),
        turn_s=time_to_fly_s(airframe, motion.speed_mps, rudder, airframe.thrust_mps2, path_m),
    )


def escape_lines(airframe: Airframe, motion: Motion, threat: Motion) -> Line:
    """Return the escapes to the left and right, fields (2, N)."""
    return stacked([escape_line(airframe, motion, threat, side) for side in (LEFT, RIGHT)])


def three_lines(airframe: Airframe, craft: Steered, threat: Motion) -> Line:
    """Return left, right and current line, fields (3, N)."""
    left, right = (escape_line(airframe, craft.motion, threat, side) for side in (LEFT, RIGHT))
    return stacked([left, right, current_line(airframe, craft)])


def stacked(lines: list[Line]) -> Line:
    """Stack lines with fields (N,) into one with fields (L, N)."""
    starts = zip(*(line.start for line in lines), strict=True)
    fields = zip(*(line[1:] for line in lines), strict=True)
    return Line(Motion(*(torch.stack(field) for field in starts)), *map(torch.stack, fields))


def along(airframe: Airframe, line: Line, time_s: Tensor) -> Motion:
    """Return the motion on the line at a time."""
    arc_s = torch.minimum(time_s, line.turn_s)
    turned = fly_far(airframe, line.start, line.rudder, line.thrust_mps2, arc_s)
    return fly_straight(airframe, turned, line.thrust_mps2, time_s - arc_s)


def place_on_escape(airframe: Airframe, line: Line, time_s: Tensor) -> tuple[Tensor, Tensor]:
    """Return the place of `along` on a line of full throttle that turns at some rudder: less to compute."""
    start, turned_s = line.start, torch.minimum(time_s, line.turn_s)
    path_m, speed_mps = powered_dash(
        start.speed_mps, drag(airframe, line.rudder), line.thrust_mps2, turned_s
    )
    half_turn = path_m * (line.rudder * (0.5 / airframe.turn_radius_m))
    sin_h, cos_h = torch.sin(half_turn), torch.cos(half_turn)
    cos_mid = start.cos_heading * cos_h - start.sin_heading * sin_h
    sin_mid = start.sin_heading * cos_h + start.cos_heading * sin_h
    chord_m = sin_h * (2.0 * airframe.turn_radius_m / line.rudder)
    fled_m, _ = powered_dash(speed_mps, airframe.drag, line.thrust_mps2, time_s - turned_s)
    x_m = start.x_m + chord_m * cos_mid + fled_m * (cos_mid * cos_h - sin_mid * sin_h)
    y_m = start.y_m + chord_m * sin_mid + fled_m * (sin_mid * cos_h + cos_mid * sin_h)
    return x_m, y_m


def _full_rudder(airframe: Airframe, speed_mps: Tensor) -> Tensor:
    limit = rudder_limit(airframe, speed_mps)
    return torch.ones_like(speed_mps) if limit is None else limit.clamp_max(1.0)


# ---- the chase of a missile ------------------------------------------------------------------------


class Shot(NamedTuple):
    """A missile in the air."""

    motion: Motion
    age_s: Tensor


class Approach(NamedTuple):
    """The closest approach of a missile."""

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
    """Compute how close the missile comes to a prey on the line; fields broadcast."""
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
    """Return the chase before its first arc."""
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
    """Return the chase one arc later; the arc is shorter where the motor burns out before."""
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
    return Chase(
        shot=Shot(flown, age_s + dt_s),
        prey=fled,
        time_s=chase.time_s + dt_s,
        closest=select(nearer, passed, chase.closest),
        alive=chase.alive & _lives(params, flown.speed_mps, age_s + dt_s),
    )


def arc_s(chase: Chase, part_of_time_to_go: float, longest_s: float) -> Tensor:
    """Return a good length of the next arc: short where the missile is about to pass."""
    x, y = relative_position(chase.shot.motion, chase.prey)
    vx, vy = relative_velocity(chase.shot.motion, chase.prey)
    square, closing = x * x + y * y, -(x * vx + y * vy)
    to_go_s = square / closing.clamp_min(1.0)
    return (part_of_time_to_go * to_go_s).clamp(SHORTEST_ARC_S, longest_s)


def _lives(params: CombatParams, speed_mps: Tensor, age_s: Tensor) -> Tensor:
    burning = age_s < params.burn_time_s - _MOMENT_S
    young = age_s < params.max_missile_age_s - _MOMENT_S
    return young & (burning | (speed_mps >= params.self_destruct_speed_mps))


def _mean_rudder(params: CombatParams, missile: Motion, prey: Motion, dt_s: Tensor) -> Tensor:
    """Return the law's rudder now, times its mean over an exponential decay at the law's own rate."""
    gain: float | Tensor = params.navigation_gain
    if params.guidance_law == "legacy_gain":
        rudder = legacy_guidance(missile, prey)
        gain = missile.speed_mps * (legacy.GAIN_S / params.missile.turn_radius_m)
    else:
        rudder = guidance(missile, prey, params.navigation_gain, params.missile.turn_radius_m)
    x, y = relative_position(missile, prey)
    vx, vy = relative_velocity(missile, prey)
    ahead = (x * missile.cos_heading + y * missile.sin_heading) * missile.speed_mps
    decay = (gain * ahead + 2.0 * (x * vx + y * vy)) / (x * x + y * y).clamp_min(1.0)  # 1/s
    z = (decay * dt_s).clamp_min(0.0)
    mean = (1.0 + z * (1.0 / 6)) / (1.0 + z * (2.0 / 3 + z * (1.0 / 6)))  # of exp(-z t), 0 < t < 1
    return rudder * mean


def _fled(params: CombatParams, chase: Chase, line: Line, dt_s: Tensor) -> Motion:
    """Return the prey after dt_s more on its line; one arc, also where its turn ends on the way."""
    turning = ((line.turn_s - chase.time_s) / dt_s).clamp(0.0, 1.0)
    return fly(params.fighter, chase.prey, line.rudder * turning, line.thrust_mps2, dt_s)


def _passed(chase: Chase, flown: Motion, fled: Motion, dt_s: Tensor) -> Approach:
    """Return the closest approach within the arc, on the straight chord of the relative path."""
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
