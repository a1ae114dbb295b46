"""Courses and the rudder that holds them.

A course is an angle off the own nose as cosine and sine: no inverse function is needed, which is cheaper,
and the bits of one that is (atan2) depend on the batch size.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim.geometry import View

_FULL_RUDDER_ERROR_RAD = math.radians(20.0)
_SIN_FULL_RUDDER = math.sin(_FULL_RUDDER_ERROR_RAD)
# A little more, because the series ends a little short of full rudder.
_RUDDER_PER_RAD = 1.00001 / _FULL_RUDDER_ERROR_RAD


class Course(NamedTuple):
    """A direction off the own nose, fields (N,)."""

    cos: Tensor
    sin: Tensor  # positive is to the left


def towards(view: View) -> Course:
    """Straight at the other."""
    return Course(view.cos_bearing, view.sin_bearing)


def away_from(view: View) -> Course:
    """The opposite of its bearing."""
    return Course(-view.cos_bearing, -view.sin_bearing)


def beside(view: View, cos_angle: Tensor, sin_angle: Tensor) -> Course:
    """The nearer of the two courses that keep the other at this angle off the nose."""
    sine = torch.where(view.sin_bearing >= 0.0, sin_angle, -sin_angle)
    return Course(
        view.cos_bearing * cos_angle + view.sin_bearing * sine,
        view.sin_bearing * cos_angle - view.cos_bearing * sine,
    )


def either(mask: Tensor, chosen: Course, other: Course) -> Course:
    """chosen where mask, else other."""
    return Course(
        torch.where(mask, chosen.cos, other.cos), torch.where(mask, chosen.sin, other.sin)
    )


def steer(course: Course) -> Tensor:
    """Rudder that takes the course: proportional, full beyond 20 degrees; dead astern it is left."""
    direction = torch.where(course.sin >= 0.0, 1.0, -1.0)
    angle = small_angle(course.sin.clamp(-_SIN_FULL_RUDDER, _SIN_FULL_RUDDER))
    return torch.where(course.cos > 0.0, angle * _RUDDER_PER_RAD, direction).clamp(-1.0, 1.0)


def small_angle(sine: Tensor) -> Tensor:
    """The arcsine of a sine up to 0.4, as a series; rad."""
    square = sine * sine
    return sine * (1.0 + square * (1.0 / 6 + square * (3.0 / 40 + square * (15.0 / 336))))
