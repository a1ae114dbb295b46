"""Courses and the rudder that takes them."""

import math

import pytest
import torch

from navrl.envs.combat.opponents.tactics import (
    Course,
    away_from,
    beside,
    small_angle,
    steer,
    towards,
)
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.geometry import look
from tests.envs.combat.opponents.pictures import DEGREE


def view_at(*bearings):
    """What is seen of somebody at these bearings, in degrees."""
    angles = torch.tensor(bearings) * DEGREE
    zero, one = torch.zeros_like(angles), torch.ones_like(angles)
    own = Motion(zero, zero, one, zero, 300.0 * one)
    return look(own, own._replace(x_m=9e3 * angles.cos(), y_m=9e3 * angles.sin()))


def degrees(course):
    """The angle of a course, left is positive."""
    return [math.atan2(s, c) / DEGREE for c, s in zip(course.cos, course.sin, strict=True)]


def test_the_rudder_is_proportional_up_to_twenty_degrees():
    errors = torch.tensor([-179.0, -90.0, -20.0, -5.0, 0.0, 10.0, 20.0, 100.0]) * DEGREE
    wanted = [-1.0, -1.0, -1.0, -0.25, 0.0, 0.5, 1.0, 1.0]
    found = steer(Course(errors.cos(), errors.sin()))
    assert found.tolist() == pytest.approx(wanted, abs=1e-5)


def test_dead_astern_is_left():
    assert steer(Course(torch.tensor([-1.0]), torch.tensor([0.0]))).tolist() == [1.0]


def test_the_series_is_the_arcsine():
    sines = torch.linspace(-0.4, 0.4, 41)
    assert small_angle(sines).tolist() == pytest.approx([math.asin(s) for s in sines], abs=2e-5)


def test_courses_by_the_bearing_of_the_other():
    bearings = [10.0, -10.0, 100.0, -170.0]
    view = view_at(*bearings)
    assert degrees(towards(view)) == pytest.approx(bearings, abs=1e-3)
    assert degrees(away_from(view)) == pytest.approx([-170.0, 170.0, -80.0, 10.0], abs=1e-3)


@pytest.mark.parametrize("angle", [0.0, 50.0, 90.0, 150.0])
def test_beside_is_the_nearer_course_with_the_other_at_the_angle(angle):
    bearings = [5.0, -5.0, 60.0, -60.0, 175.0, -175.0]
    cos, sin = (
        torch.full((6,), math.cos(angle * DEGREE)),
        torch.full((6,), math.sin(angle * DEGREE)),
    )
    found = degrees(beside(view_at(*bearings), cos, sin))
    wanted = [min((b - angle, b + angle), key=abs) for b in bearings]
    assert found == pytest.approx(wanted, abs=1e-3)
