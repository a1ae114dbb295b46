"""Flight against closed forms, a fine integration and conservation laws; long arcs against short ones."""

import itertools
import math

import pytest
import torch

from navrl.envs.combat.sim.flight import (
    Motion,
    check_step,
    fly,
    fly_far,
    fly_straight,
    renormalised,
    time_to_fly_s,
)
from tests.envs.combat.sim.duels import shipped_params

FIGHTER, MISSILE = shipped_params().fighter, shipped_params().missile
DRAG = 9.8 / 400.0**2
GRID = list(
    itertools.product([-1.0, -0.4, 0.0, 0.7, 1.0], [0.0, 0.35, 1.0], [60.0, 200.0, 489.0, 1500.0])
)  # rudder, part of the thrust, speed


def drag_of(airframe, rudder):
    """Cd0 + k (u / R)^2 with k = 1 / (4 Cd0 (L/D)^2)."""
    return DRAG + (rudder / airframe.turn_radius_m) ** 2 / (4.0 * DRAG * airframe.lift_to_drag**2)


def closed_form(airframe, rudder, thrust, v, dt):
    """Speed, path, turn and displacement in the airframe's first frame, by tanh, sinh and log1p."""
    c = drag_of(airframe, rudder)
    if thrust > 0.0:
        vi, a = math.sqrt(thrust / c), math.sqrt(thrust * c)
        t = math.tanh(a * dt)
        speed = vi * (v + vi * t) / (vi + v * t)
        path = math.log1p(2.0 * math.sinh(a * dt / 2) ** 2 + v / vi * math.sinh(a * dt)) / c
    else:
        speed = v / (1.0 + c * v * dt)
        path = math.log1p(c * v * dt) / c
    half = rudder * path / (2.0 * airframe.turn_radius_m)
    chord = path * (math.sin(half) / half if half else 1.0)
    return speed, path, 2.0 * half, chord * math.cos(half), chord * math.sin(half)


def runge_kutta(airframe, rudder, thrust, v, dt, steps=400):
    """Speed, path, turn and displacement by fourth-order Runge-Kutta of the equations of motion."""
    c, step = drag_of(airframe, rudder), dt / steps

    def slope(y):
        speed, _, heading, _, _ = y
        return (
            thrust - c * speed * speed,
            speed,
            speed * rudder / airframe.turn_radius_m,
            speed * math.cos(heading),
            speed * math.sin(heading),
        )

    def moved(y, k, h):
        return tuple(a + h * b for a, b in zip(y, k, strict=True))

    y = (v, 0.0, 0.0, 0.0, 0.0)
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(moved(y, k1, step / 2))
        k3 = slope(moved(y, k2, step / 2))
        k4 = slope(moved(y, k3, step))
        mean = [(a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
        y = moved(y, mean, step)
    return y


def motion(speed, dtype=torch.float32):
    """Vehicles at the origin that point along x."""
    speed = torch.as_tensor(speed, dtype=dtype)
    zero = torch.zeros_like(speed)
    return Motion(zero, zero.clone(), zero + 1.0, zero.clone(), speed)


def fly_many(airframe, start, rudder, thrust, dt, ticks):
    rudder, thrust = (
        torch.as_tensor(v).to(start.x_m).expand_as(start.x_m) for v in (rudder, thrust)
    )
    for _ in range(ticks):
        start = renormalised(fly(airframe, start, rudder, thrust, dt))
    return start


@pytest.mark.parametrize("airframe", [FIGHTER, MISSILE], ids=["fighter", "missile"])
@pytest.mark.parametrize("dt", [0.01, 0.1, 0.25, 0.5])
@pytest.mark.parametrize("solution", [closed_form, runge_kutta])
def test_one_step_equals_the_exact_solution(airframe, dt, solution):
    cases = GRID if solution is closed_form else GRID[::3]
    rudder, part, speed = (torch.tensor(column) for column in zip(*cases, strict=True))
    steps = 400 if dt > 0.01 else 40
    found = fly(airframe, motion(speed), rudder, part * airframe.thrust_mps2, dt)
    for index, (u, p, v) in enumerate(cases):
        extra = (steps,) if solution is runge_kutta else ()
        end, path, turn, x, y = solution(airframe, u, p * airframe.thrust_mps2, v, dt, *extra)
        assert found.speed_mps[index].item() == pytest.approx(end, rel=1e-5)
        assert found.x_m[index].item() == pytest.approx(x, abs=1e-5 * path)
        assert found.y_m[index].item() == pytest.approx(y, abs=1e-5 * path)
        heading = math.atan2(found.sin_heading[index].item(), found.cos_heading[index].item())
        assert heading == pytest.approx(turn, abs=1e-5 * abs(turn) + 2e-7)


@pytest.mark.parametrize(
    ("airframe", "rudder", "speed_mps"),
    # 400 sqrt(1.5), sqrt(14.7 / 2.245153e-4) and 400 sqrt(15)
    [(FIGHTER, 0.0, 489.898), (FIGHTER, -1.0, 255.880), (MISSILE, 0.0, 1549.193)],
)
def test_speed_settles_where_thrust_equals_drag(airframe, rudder, speed_mps):
    from_both_sides = motion([0.5 * speed_mps, 1.5 * speed_mps])
    end = fly_many(airframe, from_both_sides, rudder, airframe.thrust_mps2, 0.25, 1000)
    assert end.speed_mps.tolist() == pytest.approx([speed_mps, speed_mps], rel=1e-5)


def test_full_rudder_flies_a_circle_of_the_turn_radius_at_any_speed():
    place = motion([100.0, 300.0, 700.0])
    for _ in range(200):
        place = fly(FIGHTER, place, torch.ones(3), torch.full((3,), 14.7), 0.1)
        # The centre of a left turn that starts at the origin along x is (0, 1000 m).
        radius_m = torch.hypot(place.x_m, place.y_m - 1000.0)
        assert radius_m.tolist() == pytest.approx([1000.0] * 3, abs=0.05)


def test_a_coasting_airframe_loses_speed_exponentially_with_the_path():
    # dv/dt = -c v^2 and ds/dt = v give dv/ds = -c v; on a circle the path is radius times turn.
    for rudder in (0.0, 1.0):
        start = motion([450.0], torch.float64)
        path, end = 0.0, start
        for _ in range(60):
            before = end
            end = fly_many(FIGHTER, end, rudder, 0.0, 0.1, 1)
            chord = math.hypot(end.x_m - before.x_m, end.y_m - before.y_m)
            path += 2000.0 * math.asin(chord / 2000.0) if rudder else chord
        left = math.exp(-drag_of(FIGHTER, rudder) * path)
        assert end.speed_mps.item() == pytest.approx(450.0 * left, rel=1e-9)


def test_the_heading_stays_a_unit_vector_for_3000_ticks():
    generator = torch.Generator().manual_seed(5)
    place = motion(torch.full((64,), 300.0))
    for _ in range(300):
        rudder = 2.0 * torch.rand(64, generator=generator) - 1.0
        for _ in range(10):
            place = fly(FIGHTER, place, rudder, torch.full((64,), 14.7), 0.1)
        place = renormalised(place)  # once per decision, as the simulator does
    length = place.cos_heading.double() ** 2 + place.sin_heading.double() ** 2
    assert (length - 1.0).abs().max() < 3e-7


@pytest.mark.parametrize(
    ("airframe", "dt"),
    [
        (FIGHTER, 0.0),
        (FIGHTER, -0.1),
        (FIGHTER, 5.0),
        (MISSILE, 0.51),  # 147 * 1.0817e-3 * 0.51^2 = 0.0414, over the limit of the series
        (FIGHTER._replace(turn_radius_m=20.0), 0.1),  # 50 m in one step: 1.25 rad of half turn
    ],
)
def test_an_unusable_step_is_refused_in_one_sentence(airframe, dt):
    with pytest.raises(
        ValueError, match=r"^physics step of .* s is not usable for Airframe"
    ) as caught:
        check_step(airframe, dt)
    message = str(caught.value)
    assert message.endswith("change env.sim.tick_s")
    assert "expected a positive step" in message
    assert "\n" not in message
    assert str(dt) in message


LONG_GRID = list(
    itertools.product([-1.0, -0.3, 0.0, 1e-4, 0.7, 1.0], [0.0, 0.4, 1.0], [80.0, 300.0, 900.0])
)


def columns(airframe, dtype=torch.float32):
    """Rudder, thrust and speed of the grid, and airframes at the origin along x."""
    rudder, part, speed = (torch.tensor(row, dtype=dtype) for row in zip(*LONG_GRID, strict=True))
    zero = torch.zeros_like(speed)
    return rudder, part * airframe.thrust_mps2, Motion(zero, zero, zero + 1.0, zero, speed)


@pytest.mark.parametrize("airframe", [FIGHTER, MISSILE], ids=["fighter", "missile"])
@pytest.mark.parametrize("time", [0.0, 0.1, 2.5, 10.0, 60.0])
def test_one_arc_of_any_length_is_the_closed_form(airframe, time):
    rudder, thrust, start = columns(airframe)
    end = fly_far(airframe, start, rudder, thrust, torch.full_like(rudder, time))
    for index, (u, part, v) in enumerate(LONG_GRID):
        speed, path, turn, x, y = closed_form(airframe, u, part * airframe.thrust_mps2, v, time)
        assert end.speed_mps[index].item() == pytest.approx(speed, rel=2e-6)
        # float32 resolves 4 mm at 50 km, and the end of a turn of 40 rad within 1e-5 rad
        assert end.x_m[index].item() == pytest.approx(x, abs=2e-6 * path + 1e-3)
        assert end.y_m[index].item() == pytest.approx(y, abs=2e-6 * path + 1e-3)
        cos, sin = end.cos_heading[index].item(), end.sin_heading[index].item()
        assert (cos, sin) == pytest.approx((math.cos(turn), math.sin(turn)), abs=2e-5)


def test_straight_flight_is_an_arc_with_rudder_0_and_turns_with_the_heading():
    airframe = FIGHTER
    _, thrust, start = columns(airframe)
    start = start._replace(
        cos_heading=torch.full_like(thrust, 0.6), sin_heading=torch.full_like(thrust, -0.8)
    )
    time = torch.full_like(thrust, 33.0)
    straight = fly_straight(airframe, start, thrust, time)
    for index, (_, part, v) in enumerate(LONG_GRID):
        speed, path, *_ = closed_form(airframe, 0.0, part * airframe.thrust_mps2, v, 33.0)
        assert straight.speed_mps[index].item() == pytest.approx(speed, rel=2e-6)
        assert straight.x_m[index].item() == pytest.approx(0.6 * path, rel=3e-6)
        assert straight.y_m[index].item() == pytest.approx(-0.8 * path, rel=3e-6)
    assert torch.equal(straight.cos_heading, start.cos_heading)


@pytest.mark.parametrize("path", [1e-3, 5.0, 800.0, 6283.0])
@pytest.mark.parametrize("thrust", [0.0, 14.7, 147.0])
def test_the_time_of_a_path_flies_that_path(path, thrust):
    airframe = FIGHTER
    rudder, _, start = columns(airframe)
    time = time_to_fly_s(airframe, start.speed_mps, rudder, thrust, torch.full_like(rudder, path))
    for index, (u, _, v) in enumerate(LONG_GRID):
        _, flown, *_ = closed_form(airframe, u, thrust, v, time[index].item())
        # no thrust counts as 1 mm/s^2, which in the longest glide, of two minutes, makes 7 m
        assert flown == pytest.approx(path, rel=2e-3 if thrust == 0.0 else 5e-6)
