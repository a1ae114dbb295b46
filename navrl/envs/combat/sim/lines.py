"""Where an aircraft will be: lines in closed form, an arc and then a straight.

The current line keeps rudder and throttle. An escape line turns at full rudder to one side until it points
away from a threat, as that stands now, and flees straight at full throttle. Where the structure has a load
limit, the rudder is what the limit leaves at the first speed: the slower rest of a turn could be tighter.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim.angles import angle_rad
from navrl.envs.combat.sim.arcs import drag, fly_far, fly_straight, powered_dash, time_to_fly_s
from navrl.envs.combat.sim.flight import GRAVITY_MPS2, Body, Motion

LEFT, RIGHT = 1.0, -1.0  # the rudder of an escape to this side
SIDES = ("left", "right", "current")  # the order of `three_lines`
# Who points away this well does not fly a circle because he is a hair past it.
_POINTS_AWAY_RAD = math.acos(0.95)


class Steered(NamedTuple):
    """An aircraft and what it is told."""

    motion: Motion
    rudder: Tensor
    throttle: Tensor


class Line(NamedTuple):
    """An arc from the start, then straight on; fields broadcast against each other."""

    start: Motion
    rudder: Tensor
    thrust_mps2: Tensor
    turn_s: Tensor  # when the arc ends


def current_line(body: Body, craft: Steered) -> Line:
    """Rudder and throttle stay as they are, for ever."""
    full = _full_rudder(body, craft.motion.speed_mps)
    rudder = torch.minimum(torch.maximum(craft.rudder, -full), full)
    never = torch.full_like(rudder, math.inf)
    return Line(craft.motion, rudder, craft.throttle * body.thrust_mps2, never)


def escape_line(body: Body, motion: Motion, threat: Motion, side: float) -> Line:
    """Full rudder to the side until the heading points away from the threat, then straight."""
    x, y = motion.x_m - threat.x_m, motion.y_m - threat.y_m
    cos = motion.cos_heading * x + motion.sin_heading * y
    sin = side * (motion.cos_heading * y - motion.sin_heading * x)
    angle = angle_rad(cos, sin)
    around = torch.where(angle < _POINTS_AWAY_RAD, 0.0, 2.0 * math.pi - angle)
    turn_rad = torch.where(sin < 0.0, around, angle)
    rudder = _full_rudder(body, motion.speed_mps)
    path_m = turn_rad * body.turn_radius_m / rudder
    return Line(
        start=motion,
        rudder=side * rudder,
        thrust_mps2=torch.full_like(turn_rad, body.thrust_mps2),
        turn_s=time_to_fly_s(body, motion.speed_mps, rudder, body.thrust_mps2, path_m),
    )


def escape_lines(body: Body, motion: Motion, threat: Motion) -> Line:
    """Left and right, fields (2, N)."""
    return stacked([escape_line(body, motion, threat, side) for side in (LEFT, RIGHT)])


def three_lines(body: Body, craft: Steered, threat: Motion) -> Line:
    """Left, right and current, fields (3, N)."""
    left, right = (escape_line(body, craft.motion, threat, side) for side in (LEFT, RIGHT))
    return stacked([left, right, current_line(body, craft)])


def stacked(lines: list[Line]) -> Line:
    """Lines with fields (N,) as one with fields (L, N)."""
    starts = zip(*(line.start for line in lines), strict=True)
    fields = zip(*(line[1:] for line in lines), strict=True)
    return Line(Motion(*(torch.stack(field) for field in starts)), *map(torch.stack, fields))


def along(body: Body, line: Line, time_s: Tensor) -> Motion:
    """The motion on the line at a time."""
    arc_s = torch.minimum(time_s, line.turn_s)
    turned = fly_far(body, line.start, line.rudder, line.thrust_mps2, arc_s)
    return fly_straight(body, turned, line.thrust_mps2, time_s - arc_s)


def place_on_escape(body: Body, line: Line, time_s: Tensor) -> tuple[Tensor, Tensor]:
    """Where `along` is at a time, on a line of full throttle that turns at some rudder: less to compute."""
    start, turned_s = line.start, torch.minimum(time_s, line.turn_s)
    path_m, speed_mps = powered_dash(
        start.speed_mps, drag(body, line.rudder), line.thrust_mps2, turned_s
    )
    half_turn = path_m * (line.rudder * (0.5 / body.turn_radius_m))
    sin_h, cos_h = torch.sin(half_turn), torch.cos(half_turn)
    cos_mid = start.cos_heading * cos_h - start.sin_heading * sin_h
    sin_mid = start.sin_heading * cos_h + start.cos_heading * sin_h
    chord_m = sin_h * (2.0 * body.turn_radius_m / line.rudder)
    fled_m, _ = powered_dash(speed_mps, body.drag, line.thrust_mps2, time_s - turned_s)
    x_m = start.x_m + chord_m * cos_mid + fled_m * (cos_mid * cos_h - sin_mid * sin_h)
    y_m = start.y_m + chord_m * sin_mid + fled_m * (sin_mid * cos_h + cos_mid * sin_h)
    return x_m, y_m


def _full_rudder(body: Body, speed_mps: Tensor) -> Tensor:
    if body.max_load_g is None:
        return torch.ones_like(speed_mps)
    limit = body.max_load_g * GRAVITY_MPS2 * body.turn_radius_m
    return (limit / (speed_mps * speed_mps).clamp_min(1.0)).clamp_max(1.0)
