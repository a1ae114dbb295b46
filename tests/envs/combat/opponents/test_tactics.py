"""Courses and their rudder, and the no-escape range against the simulator."""

import itertools
import math

import pytest
import torch

from navrl.envs.combat.opponents.tactics import (
    Course,
    away_from,
    beside,
    launch_reach_m,
    missile_reach_m,
    no_escape_range_m,
    small_angle,
    steer,
    towards,
)
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.geometry import incoming_missile, look
from tests.envs.combat.opponents.pictures import DEGREE, PARAMS, incoming, picture
from tests.envs.combat.sim.duels import (
    hits_on_fleeing_targets,
    motion_of,
)


def view_at(*bearings):
    """Return the view of aircraft at these bearings, in degrees."""
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


SPEEDS_MPS = (200.0, 300.0, 450.0)
BEARINGS = (0.0, 45.0, 90.0, 135.0, 180.0)  # of the shooter off the nose of the prey, degrees
CASES = list(itertools.product(SPEEDS_MPS, SPEEDS_MPS, BEARINGS))


def closed_form_m(shooter_mps, prey_mps, bearing):
    """The range of a launch now."""
    shooter = motion_of([(0.0, 0.0, 0.0, shooter_mps)])
    prey = motion_of([(20e3, 0.0, 180.0 - bearing, prey_mps)])
    shooter, prey = (type(m)(*(field[0] for field in m)) for m in (shooter, prey))
    reach_m = launch_reach_m(PARAMS, shooter.speed_mps, prey.speed_mps, look(shooter, prey))
    return reach_m.item()


def test_it_agrees_with_the_simulator():
    ranges_m = [closed_form_m(*case) for case in CASES]
    # A fast prey that comes from the side flies into its turn further than the form knows.
    slack = [0.08 if case[1] == 450.0 and case[2] in (45.0, 90.0) else 0.035 for case in CASES]
    near = [((1.0 - s) * r, *case) for r, s, case in zip(ranges_m, slack, CASES, strict=True)]
    far = [(1.02 * r, *case) for r, case in zip(ranges_m, CASES, strict=True)]
    hit = hits_on_fleeing_targets(near + far)
    assert hit[: len(CASES)].all()
    assert not hit[len(CASES) :].any()


def test_straight_chase_is_exact():
    # Both fly straight: the missile burns for 10 s, then coasts until it is as slow as its prey.
    missile, prey, dt = 300.0, 300.0, 1e-3
    drag, gap, most, t = 9.8 / 400.0**2, 0.0, 0.0, 0.0
    while missile > prey or t < 10.0:
        thrust = 147.0 if t < 10.0 else 0.0
        missile, prey = (
            missile + dt * (thrust - drag * missile**2),
            prey + dt * (14.7 - drag * prey**2),
        )
        gap += dt * (missile - prey)
        most, t = max(most, gap), t + dt
    assert closed_form_m(300.0, 300.0, 180.0) == pytest.approx(most + 100.0 + 20.0, rel=2e-3)


def test_a_slow_missile_is_dangerous_as_long_as_the_prey_has_not_turned_to_the_beam():
    # A quarter turn takes 1000 pi / 2 / 300 s, in which the missile flies 1571 m and the prey comes
    # 1000 m nearer; from then on it is the faster one.
    speed, none, ahead = torch.tensor([300.0]), torch.zeros(1), torch.ones(1)
    found = no_escape_range_m(PARAMS, speed, none, torch.tensor([300.0]), ahead).item()
    assert found == pytest.approx(500.0 * math.pi + 1000.0 + 100.0, rel=1e-3)
    behind = no_escape_range_m(PARAMS, speed * 0.8, none, torch.tensor([300.0]), -ahead).item()
    assert behind == pytest.approx(100.0, abs=1.0)


def test_a_missile_in_the_air_counts_what_its_motor_has_left():
    # Just launched it is a launch head-on, without the offset of the rail.
    def reach_m(age_s, speed):
        state = incoming(picture(), 0.0, 9e3, speed_mps=speed, age_s=age_s)
        threat = incoming_missile(PARAMS, state, 1)
        return missile_reach_m(PARAMS, threat, torch.tensor([300.0])).item()

    assert reach_m(0.0, 300.0) == pytest.approx(closed_form_m(300.0, 300.0, 0.0) - 20.0, rel=1e-5)
    # It burns until 10 s: from then on only the speed counts.
    assert reach_m(10.0, 900.0) == reach_m(25.0, 900.0) < reach_m(9.0, 900.0)
