"""Long arcs against the closed form in float64, and against many short ones."""

import itertools
import math

import pytest
import torch

from navrl.envs.combat.sim.flight import Motion, fly, fly_far, fly_straight, time_to_fly_s
from tests.envs.combat.sim.duels import shipped_params

PARAMS = shipped_params()
BODIES = {"fighter": PARAMS.fighter, "missile": PARAMS.missile}
GRID = list(
    itertools.product([-1.0, -0.3, 0.0, 1e-4, 0.7, 1.0], [0.0, 0.4, 1.0], [80.0, 300.0, 900.0])
)


def reference(body, speed, rudder, thrust, time):
    """Speed, path, turn and place, from the origin along x, in Python's floats."""
    curvature = rudder / body.turn_radius_m
    c = 9.8 / body.terminal_speed_mps**2
    c += curvature**2 / (4.0 * c * body.lift_to_drag**2)
    if thrust > 0.0:
        top, rate = math.sqrt(thrust / c), math.sqrt(thrust * c)
        t = math.tanh(rate * time)
        end = top * (speed + top * t) / (top + speed * t)
        path = math.log(math.cosh(rate * time) + speed / top * math.sinh(rate * time)) / c
    else:
        end = speed / (1.0 + c * speed * time)
        path = math.log1p(c * speed * time) / c
    turn = curvature * path
    if abs(turn) > 1e-6:
        return end, path, turn, math.sin(turn) / curvature, (1.0 - math.cos(turn)) / curvature
    return end, path, turn, path, 0.5 * turn * path


def columns(body, dtype=torch.float32):
    """Rudder, thrust and speed of the grid, and bodies at the origin along x."""
    rudder, part, speed = (torch.tensor(row, dtype=dtype) for row in zip(*GRID, strict=True))
    zero = torch.zeros_like(speed)
    return rudder, part * body.thrust_mps2, Motion(zero, zero, zero + 1.0, zero, speed)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("time", [0.0, 0.1, 2.5, 10.0, 60.0])
def test_one_arc_of_any_length_is_the_closed_form(body, time):
    rudder, thrust, start = columns(body)
    end = fly_far(body, start, rudder, thrust, torch.full_like(rudder, time))
    for index, (u, part, v) in enumerate(GRID):
        speed, path, turn, x, y = reference(body, v, u, part * body.thrust_mps2, time)
        assert end.speed_mps[index].item() == pytest.approx(speed, rel=2e-6)
        # float32 resolves 4 mm at 50 km, and the end of a turn of 40 rad within 1e-5 rad
        assert end.x_m[index].item() == pytest.approx(x, abs=2e-6 * path + 1e-3)
        assert end.y_m[index].item() == pytest.approx(y, abs=2e-6 * path + 1e-3)
        cos, sin = end.cos_heading[index].item(), end.sin_heading[index].item()
        assert (cos, sin) == pytest.approx((math.cos(turn), math.sin(turn)), abs=2e-5)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_minute_in_one_arc_is_a_minute_in_ticks(body):
    rudder, thrust, start = columns(body, torch.float64)
    flown = start
    for _ in range(600):
        flown = fly(body, flown, rudder, thrust, 0.1)
    at_once = fly_far(body, start, rudder, thrust, torch.full_like(rudder, 60.0))
    assert (at_once.x_m - flown.x_m).abs().max() < 0.5
    assert (at_once.y_m - flown.y_m).abs().max() < 0.5
    assert (at_once.speed_mps / flown.speed_mps - 1.0).abs().max() < 1e-5


def test_straight_flight_is_an_arc_with_rudder_0_and_turns_with_the_heading():
    body = PARAMS.fighter
    _, thrust, start = columns(body)
    start = start._replace(
        cos_heading=torch.full_like(thrust, 0.6), sin_heading=torch.full_like(thrust, -0.8)
    )
    time = torch.full_like(thrust, 33.0)
    straight = fly_straight(body, start, thrust, time)
    for index, (_, part, v) in enumerate(GRID):
        speed, path, *_ = reference(body, v, 0.0, part * body.thrust_mps2, 33.0)
        assert straight.speed_mps[index].item() == pytest.approx(speed, rel=2e-6)
        assert straight.x_m[index].item() == pytest.approx(0.6 * path, rel=3e-6)
        assert straight.y_m[index].item() == pytest.approx(-0.8 * path, rel=3e-6)
    assert torch.equal(straight.cos_heading, start.cos_heading)


@pytest.mark.parametrize("path", [1e-3, 5.0, 800.0, 6283.0])
@pytest.mark.parametrize("thrust", [0.0, 14.7, 147.0])
def test_the_time_of_a_path_flies_that_path(path, thrust):
    body = PARAMS.fighter
    rudder, _, start = columns(body)
    time = time_to_fly_s(body, start.speed_mps, rudder, thrust, torch.full_like(rudder, path))
    for index, (u, _, v) in enumerate(GRID):
        _, flown, *_ = reference(body, v, u, thrust, time[index].item())
        # no thrust counts as 1 mm/s^2, which in the longest glide, of two minutes, makes 7 m
        assert flown == pytest.approx(path, rel=2e-3 if thrust == 0.0 else 5e-6)
