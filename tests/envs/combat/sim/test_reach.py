"""The reach of a missile: closed forms ahead, a sweep of our own abeam and behind, and real shots."""

import functools
import math

import pytest
import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.reach import ANGLES, SPEEDS, TIMES, cell, interpolated, reach_table
from tests.envs.combat.sim.duels import opening, orders, shipped_params
from tests.envs.combat.sim.scalar_combat import Vehicle

PARAMS = shipped_params()


def reach_m(speed, angle_deg, time_s, params=PARAMS, field="distance_m"):
    """One value of the table."""
    angle = torch.deg2rad(torch.tensor([float(angle_deg)]))
    place = cell(torch.tensor([float(speed)]), torch.cos(angle), torch.sin(angle))
    rows = reach_table(params).at([time_s])
    return interpolated(getattr(rows, field), place).item()


@functools.cache
def arc_then_straight_m(speed, time_s):
    """Distance by direction (whole degrees) of missiles that turn at one rudder, then go straight."""
    best = {}
    for rudder in (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0):
        before = None
        for airframe in ends(speed, time_s, rudder):
            seen_deg = math.degrees(math.atan2(airframe.y, airframe.x)) % 360.0
            point = seen_deg, math.hypot(airframe.x, airframe.y)
            for degrees in range(math.ceil(before[0]), math.floor(seen_deg) + 1) if before else ():
                part = (degrees - before[0]) / max(seen_deg - before[0], 1e-9)
                found_m = before[1] + part * (point[1] - before[1])
                best[degrees] = max(best.get(degrees, 0.0), found_m)
            before = point
    return best


def ends(speed, time_s, rudder, step_s=0.1):
    """Yield the missile at time_s after 0, 1, 2, ... steps of turning, for at most 300 degrees."""
    kind, turning = PARAMS.missile, Vehicle(20.0, 0.0, 0.0, speed)
    for step in range(round(time_s / step_s) + 1):
        airframe, age_s = turning, step * step_s
        for thrust, until_s in ((147.0, min(10.0, time_s)), (0.0, time_s)):
            if age_s < until_s - 1e-9:
                airframe, age_s = airframe.flown(kind, 0.0, thrust, until_s - age_s), until_s
        yield airframe
        thrust = 147.0 if step * step_s < 10.0 - 1e-9 else 0.0
        turning = turning.flown(kind, rudder, thrust, step_s)
        if turning.psi > math.radians(300.0):
            return


@pytest.mark.parametrize(
    ("time_s", "distance_m", "speed_mps"),
    [
        (5, 3113, 906.8),
        (10, 8640, 1264.3),
        (20, 18003, 712.5),
        (30, 23915, 496.0),
        (60, 34493, 259.5),
    ],
)
def test_straight_ahead_it_is_the_flight_without_rudder(time_s, distance_m, speed_mps):
    # The closed form from 300 m/s; the missile starts 20 m ahead.
    assert reach_m(300.0, 0.0, time_s) == pytest.approx(20.0 + distance_m, rel=2e-4)
    assert reach_m(300.0, 0.0, time_s, field="speed_mps") == pytest.approx(speed_mps, rel=1e-3)


@pytest.mark.parametrize(
    ("time_s", "abeam"), [(10.0, 0.50), (15.0, 0.67), (20.0, 0.72), (40.0, 0.81)]
)
def test_abeam_it_is_more_than_the_half_of_an_ellipse_and_than_any_arc_reaches(time_s, abeam):
    # An arc and a straight reach 0.50 of the distance ahead only at 10 s, and more later.
    ahead_m = reach_m(300.0, 0.0, time_s)
    arcs_m = arc_then_straight_m(300.0, time_s)[90]
    assert arcs_m / ahead_m == pytest.approx(abeam, rel=0.03)
    assert reach_m(300.0, 90.0, time_s) > arcs_m
    assert abeam < reach_m(300.0, 90.0, time_s) / ahead_m < 1.15 * abeam


def test_behind_the_beam_there_is_no_safety():
    arcs_m = arc_then_straight_m(300.0, 20.0)[150]
    assert arcs_m == pytest.approx(6700.0, rel=0.03)
    # A rudder that eases as the missile gets faster reaches a quarter further.
    assert 1.15 * arcs_m < reach_m(300.0, 150.0, 20.0) < 1.35 * arcs_m


def test_it_is_never_less_than_an_arc_and_a_straight():
    for speed, time_s in ((220.0, 12.5), (300.0, 20.0), (440.0, 5.0), (500.0, 40.0)):
        for angle_deg, distance_m in arc_then_straight_m(speed, time_s).items():
            if 0 <= angle_deg <= 180:
                assert reach_m(speed, angle_deg, time_s) > 0.995 * distance_m - 30.0


def test_no_guided_shot_gets_further():
    rows = 1500
    generator = torch.Generator().manual_seed(4)
    draw = torch.rand(6, rows, generator=generator)
    range_m, bearing = 2000.0 + 26_000.0 * draw[0] ** 2, 360.0 * draw[1]
    speed, rudder = 200.0 + 300.0 * draw[2], torch.tensor([-1.0, -0.3, 0.0, 0.0, 0.3, 1.0])
    rudder = rudder[(6 * draw[3]).long()]
    x_m = range_m * torch.cos(torch.deg2rad(bearing))
    y_m = range_m * torch.sin(torch.deg2rad(bearing))
    targets = zip(x_m, y_m, 360.0 * draw[4], 200.0 + 280.0 * draw[5], strict=True)
    params = shipped_params(decision_s=2.5)
    state = opening(params, [(0.0, 0.0, 0.0, v) for v in speed.tolist()], list(targets))
    table, seen = reach_table(params), 0
    for row in range(TIMES):
        wish = torch.stack([torch.zeros(rows), rudder])
        state, _ = advance(params, state, orders(state, wish, fire=[row == 0, False]))
        missile = state.missiles.motion
        x_m, y_m = missile.x_m[0, 0], missile.y_m[0, 0]
        only = table.distance_m[row : row + 1]
        excess_m = torch.hypot(x_m, y_m) - interpolated(only, cell(speed, x_m, y_m))[0]
        excess_m = excess_m[state.missiles.active[0, 0]]
        seen += len(excess_m)
        # Only where a missile in its tightest turn ends do ten degrees of interpolation show.
        assert excess_m.max() < (200.0 if 2.5 * (row + 1) < 25.0 else 80.0)
        assert (excess_m > 80.0).float().mean() < 0.003
    assert seen > 10 * rows


@pytest.mark.parametrize("angle_deg", [0.0, 90.0])
def test_a_missile_that_has_ended_reaches_nothing(angle_deg):
    # Straight from 300 m/s it coasts below 500 m/s just before 30 s.
    slow = shipped_params(self_destruct_speed_mps=500.0)
    assert reach_m(300.0, 0.0, 27.5, slow) == reach_m(300.0, 0.0, 27.5)
    assert reach_m(300.0, angle_deg, 30.0, slow) == 0.0
    old = shipped_params(max_missile_age_s=20.0)
    assert reach_m(300.0, angle_deg, 20.0, old) == reach_m(300.0, angle_deg, 20.0)
    assert reach_m(300.0, angle_deg, 22.5, old) == 0.0


def test_nothing_gets_behind_in_the_first_seconds():
    assert reach_m(300.0, 180.0, 5.0) == 0.0
    assert reach_m(300.0, 180.0, 30.0) > 5000.0


def test_between_the_nodes_it_is_linear_and_beyond_the_edges_constant():
    table = reach_table(PARAMS).distance_m.view(TIMES, SPEEDS, ANGLES)
    corners = table[7, 5:7, 8:10].tolist()  # 20 s, 300 and 320 m/s, 80 and 90 degrees
    slow = corners[0][0] + 0.3 * (corners[0][1] - corners[0][0])
    fast = corners[1][0] + 0.3 * (corners[1][1] - corners[1][0])
    assert reach_m(305.0, 83.0, 20.0) == pytest.approx(0.75 * slow + 0.25 * fast, rel=1e-5)
    assert reach_m(305.0, -83.0, 20.0) == reach_m(305.0, 83.0, 20.0)
    assert reach_m(100.0, 40.0, 20.0) == reach_m(200.0, 40.0, 20.0)
    assert reach_m(900.0, 40.0, 20.0) == reach_m(500.0, 40.0, 20.0)
    assert reach_m(500.0, 180.0, 60.0) == pytest.approx(table[-1, -1, -1].item())


def test_one_table_per_set_of_constants():
    assert reach_table(PARAMS) is reach_table(shipped_params())
    stronger = PARAMS.missile._replace(thrust_mps2=200.0)
    other = reach_table(PARAMS._replace(missile=stronger))
    assert other.distance_m[7, 0] > reach_table(PARAMS).distance_m[7, 0]
    assert reach_table(PARAMS).at([5.0, 60.0]).time_s.flatten().tolist() == [5.0, 60.0]
