"""Tactics that pilots share: courses and the rudder for them, evasion, and the no-escape range.

A course is an angle off the own nose as cosine and sine: no inverse function is needed, which is cheaper,
and the bits of one that is (atan2) depend on the batch size.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Airframe, dash
from navrl.envs.combat.sim.geometry import MissileView, View
from navrl.envs.combat.sim.params import CombatParams

_FULL_RUDDER_ERROR_RAD = math.radians(20.0)
_SIN_FULL_RUDDER = math.sin(_FULL_RUDDER_ERROR_RAD)
# A little more, because the series ends a little short of full rudder.
_RUDDER_PER_RAD = 1.00001 / _FULL_RUDDER_ERROR_RAD
_FIRST_GUESS_MPS = 400.0  # speed of the prey when the missile has become as slow
# The missile bends its path after a prey that turns: 0.3 turn radii are lost when it turns about.
_BEND = 0.15


# ---- courses ---------------------------------------------------------------------------------------


class Course(NamedTuple):
    """A direction off the own nose, fields (N,)."""

    cos: Tensor
    sin: Tensor  # positive is to the left


def towards(view: View) -> Course:
    """Return the course straight at the other."""
    return Course(view.cos_bearing, view.sin_bearing)


def away_from(view: View) -> Course:
    """Return the course opposite to the other's bearing."""
    return Course(-view.cos_bearing, -view.sin_bearing)


def beside(view: View, cos_angle: Tensor, sin_angle: Tensor) -> Course:
    """Return the nearer of the two courses that keep the other at this angle off the nose."""
    sine = torch.where(view.sin_bearing >= 0.0, sin_angle, -sin_angle)
    return Course(
        view.cos_bearing * cos_angle + view.sin_bearing * sine,
        view.sin_bearing * cos_angle - view.cos_bearing * sine,
    )


def steer(course: Course) -> Tensor:
    """Return the rudder to a course: proportional, full beyond 20 degrees; dead astern it is left."""
    direction = torch.where(course.sin >= 0.0, 1.0, -1.0)
    angle = small_angle(course.sin.clamp(-_SIN_FULL_RUDDER, _SIN_FULL_RUDDER))
    return torch.where(course.cos > 0.0, angle * _RUDDER_PER_RAD, direction).clamp(-1.0, 1.0)


def small_angle(sine: Tensor) -> Tensor:
    """Return the arcsine of a sine up to 0.4, as a series; rad."""
    square = sine * sine
    return sine * (1.0 + square * (1.0 / 6 + square * (3.0 / 40 + square * (15.0 / 336))))


# ---- evasion ---------------------------------------------------------------------------------------


def evade(
    params: CombatParams,
    threat: MissileView,
    own_speed_mps: Tensor,
    *,
    turn_out_fraction: Tensor,
    break_time_to_go_s: Tensor,
    otherwise: Tensor,
) -> Tensor:
    """Return the rudder against a missile: away from it in time, and across its nose at the last moment.

    It turns out when the missile is nearer than turn_out_fraction times its no-escape range. That is
    judged as if it pointed at the missile, so that it does not turn back in too early either. The rudder
    is `otherwise` while there is time.
    """
    danger_m = turn_out_fraction * missile_reach_m(params, threat, own_speed_mps)
    turn_out = threat.active & (threat.view.range_m < danger_m)
    rudder = torch.where(turn_out, steer(away_from(threat.view)), otherwise)
    # A missile that is about to hit cannot follow a turn across its nose: it is much the faster.
    break_ = threat.active & (threat.view.time_to_go_s < break_time_to_go_s)
    return torch.where(break_, torch.where(threat.view.sin_bearing >= 0.0, 1.0, -1.0), rudder)


# ---- the no-escape range ---------------------------------------------------------------------------


def no_escape_range_m(
    params: CombatParams,
    missile_speed_mps: Tensor,
    burn_left_s: Tensor,
    prey_speed_mps: Tensor,
    cos_bearing: Tensor,
) -> Tensor:
    """Compute the range below which a missile cannot be outrun, in closed form.

    The prey turns its tail to the missile at full rudder and flees at full throttle; the missile burns out
    and coasts after it. The range is the distance that the missile has made up when it has become as slow
    as its prey: the gap grows from then on. cos_bearing is of the missile off the nose of its prey: 1 if it
    comes from ahead.
    """
    prey, missile = params.fighter, params.missile
    turn_rad = _arc_cosine(-cos_bearing)
    after_turn_mps = _speed_after_turn(prey, prey_speed_mps, turn_rad)
    turn_s = turn_rad * prey.turn_radius_m * 2.0 / (prey_speed_mps + after_turn_mps)
    burnt_m, burnt_mps = _full_thrust(missile, missile_speed_mps, burn_left_s)
    coast_s = _coast_until(missile, burnt_mps, torch.full_like(turn_s, _FIRST_GUESS_MPS))
    flee_s = (burn_left_s + coast_s - turn_s).clamp_min(0.0)
    _, prey_mps = _full_thrust(prey, after_turn_mps, flee_s)
    coast_s = _coast_until(missile, burnt_mps, prey_mps)
    flee_s = (burn_left_s + coast_s - turn_s).clamp_min(0.0)
    dash_m, _ = _full_thrust(prey, after_turn_mps, flee_s)
    coasted_m = torch.log1p(missile.drag * burnt_mps * coast_s) / missile.drag
    sin_turn = torch.sqrt((1.0 - cos_bearing * cos_bearing).clamp_min(0.0))
    sideways = _BEND * (1.0 + cos_bearing)
    fled_m = prey.turn_radius_m * (sin_turn + sideways) + dash_m
    made_up_m = burnt_m + coasted_m - fled_m
    # A missile slower than its prey makes up distance only until the prey has turned to the beam.
    beam_rad = (turn_rad - 0.5 * math.pi).clamp_min(0.0)
    met_m = prey.turn_radius_m * (
        missile_speed_mps / prey_speed_mps.clamp_min(1.0) * beam_rad + 1.0 - sin_turn
    )
    met_m = torch.where(beam_rad > 0.0, met_m, 0.0)
    return torch.maximum(made_up_m, met_m) + params.hit_radius_m


def launch_reach_m(
    params: CombatParams, shooter_speed_mps: Tensor, prey_speed_mps: Tensor, view: View
) -> Tensor:
    """Compute the no-escape range of a missile launched now, seen from the nose of the shooter."""
    # The shooter lies on the opposite of the line of sight, seen off the nose of the prey.
    cos_bearing = -(view.cos_aspect * view.cos_bearing + view.sin_aspect * view.sin_bearing)
    burn_s = torch.full_like(shooter_speed_mps, params.burn_time_s)
    reach_m = no_escape_range_m(params, shooter_speed_mps, burn_s, prey_speed_mps, cos_bearing)
    return reach_m + params.launch_offset_m


def missile_reach_m(params: CombatParams, threat: MissileView, prey_speed_mps: Tensor) -> Tensor:
    """Compute the no-escape range of a missile in the air from a prey that points at it."""
    burn_left_s = (params.burn_time_s - threat.age_s).clamp_min(0.0)
    ahead = torch.ones_like(prey_speed_mps)
    return no_escape_range_m(params, threat.speed_mps, burn_left_s, prey_speed_mps, ahead)


def _speed_after_turn(airframe: Airframe, speed_mps: Tensor, turn_rad: Tensor) -> Tensor:
    """Return the speed after a turn: its square nears the balance exponentially in the path."""
    balance = airframe.thrust_mps2 / airframe.full_rudder_drag
    kept = torch.exp(turn_rad * (-2.0 * airframe.full_rudder_drag * airframe.turn_radius_m))
    return torch.sqrt(balance + (speed_mps * speed_mps - balance) * kept)


def _full_thrust(airframe: Airframe, speed_mps: Tensor, time_s: Tensor) -> tuple[Tensor, Tensor]:
    """Return path and speed of straight flight at full thrust."""
    drag = torch.full_like(speed_mps, airframe.drag)
    return dash(speed_mps, drag, torch.full_like(speed_mps, airframe.thrust_mps2), time_s)


def _coast_until(airframe: Airframe, speed_mps: Tensor, slow_mps: Tensor) -> Tensor:
    """Return the seconds without thrust until the speed has dropped to slow_mps."""
    return (1.0 / slow_mps - 1.0 / speed_mps).clamp_min(0.0) / airframe.drag


def _arc_cosine(cosine: Tensor) -> Tensor:
    """Return the angle within 1e-4 rad; Abramowitz and Stegun 4.4.45."""
    x = cosine.abs().clamp_max(1.0)
    angle = torch.sqrt(1.0 - x) * (1.5707288 - x * (0.2121144 - x * (0.0742610 - x * 0.0187293)))
    return torch.where(cosine < 0.0, math.pi - angle, angle)
