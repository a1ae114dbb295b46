"""The simple drones against the solutions of their equations."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from navrl.envs.navigation.sim.drone import (
    FirstOrder,
    Kinematic,
    advance,
    closed,
    hovering,
    limit_speed,
)
from tests.envs.navigation.sim.drone_examples import HUMMINGBIRD, SECOND_ORDER, column, plain

FIRST_ORDER = FirstOrder(lag_s=0.47)
MODELS = [Kinematic(), FIRST_ORDER, SECOND_ORDER, HUMMINGBIRD]


def still(model, count=1):
    start = column(1.0, 2.0, 3.0).expand(3, count)
    return hovering(model, start, start + column(1.0, 0.0, 0.0))


def flown(model, drone, command, dt, steps, response=None):
    for _ in range(steps):
        drone = advance(model, drone, column(*command), response or plain(), dt)
    return drone


def test_the_kinematic_drone_flies_its_command():
    drone = flown(
        Kinematic(), still(Kinematic()), (1.0, -2.0, 0.5), 0.1, 10, plain(wind=(3.0, 0.0, 0.0))
    )
    assert drone.velocity.flatten().tolist() == [1.0, -2.0, 0.5]
    assert drone.position.flatten().tolist() == pytest.approx([2.0, 0.0, 3.5], abs=1e-6)


@pytest.mark.parametrize("dt", [0.016, 0.05, 0.4])
@pytest.mark.parametrize(("gain", "lag", "wind"), [(1.0, 1.0, 0.0), (0.8, 1.3, 0.4)])
def test_the_first_order_drone_is_on_the_exponential(dt, gain, lag, wind):
    steps = round(0.8 / dt)
    response = plain(gain=gain, lag=lag, wind=(wind, 0.0, 0.0))
    drone = flown(FIRST_ORDER, still(FIRST_ORDER), (2.0, 0.0, -1.0), dt, steps, response)
    lag_s = 0.47 * lag / gain
    for axis, end in ((0, 2.0 + wind * lag_s), (2, -1.0)):
        speed = end * (1.0 - math.exp(-0.8 / lag_s))
        path = end * 0.8 - lag_s * speed
        assert float(drone.velocity[axis]) == pytest.approx(speed, abs=1e-5)
        assert float(drone.position[axis]) - (1.0, 2.0, 3.0)[axis] == pytest.approx(path, abs=1e-5)


def second_order_speed(time, command, gain, lag):
    """Solution of lag v'' + v' + gain v = gain command from rest, underdamped."""
    decline = 0.5 / lag
    pulse = math.sqrt(gain / lag - decline**2)
    wave = math.cos(pulse * time) + decline / pulse * math.sin(pulse * time)
    return command * (1.0 - math.exp(-decline * time) * wave)


@pytest.mark.parametrize(("gain", "lag"), [(1.0, 1.0), (1.2, 1.3)])
def test_the_second_order_drone_converges_to_the_solution_of_its_equation(gain, lag):
    errors = []
    for dt in (0.016, 0.002):
        drone, worst = still(SECOND_ORDER), 0.0
        for step in range(1, round(2.0 / dt) + 1):
            drone = flown(SECOND_ORDER, drone, (2.0, 0.0, 0.0), dt, 1, plain(gain=gain, lag=lag))
            expected = second_order_speed(step * dt, 2.0, 2.25 * gain, 0.16 * lag)
            worst = max(worst, abs(float(drone.velocity[0]) - expected))
        errors.append(worst)
    assert errors[0] < 0.06
    assert errors[1] == pytest.approx(errors[0] / 8.0, rel=0.2)  # Euler: first order


def test_the_second_order_drone_overshoots_and_rises_as_measured():
    speeds, drone = [], still(SECOND_ORDER)
    for _ in range(250):
        drone = flown(SECOND_ORDER, drone, (2.0, 0.0, 0.0), 0.016, 1)
        speeds.append(float(drone.velocity[0]))
    rises = [
        0.016 * (1 + next(i for i, v in enumerate(speeds) if v >= 2.0 * part))
        for part in (0.632, 0.9)
    ]
    assert rises == pytest.approx([0.51, 0.83], abs=0.01)
    assert max(speeds) / 2.0 - 1.0 == pytest.approx(0.009, abs=0.001)


def test_the_second_order_drone_accelerates_within_its_limits_and_straight_ahead():
    drone, peak = still(SECOND_ORDER), torch.zeros(2)
    for _ in range(100):
        before = drone.velocity
        drone = flown(SECOND_ORDER, drone, (30.0, 40.0, -50.0), 1.0 / 60.0, 1)
        change = (drone.velocity - before).flatten() * 60.0
        peak = torch.maximum(peak, torch.stack([change[:2].norm(), change[2].abs()]))
        assert float(change[1]) == pytest.approx(float(change[0]) * 4.0 / 3.0, abs=1e-3)
    assert peak.tolist() == pytest.approx([8.0, 6.0], abs=0.01)


def test_the_second_order_drone_leans_against_the_wind_with_what_the_gain_allows():
    drone = flown(
        SECOND_ORDER, still(SECOND_ORDER), (0.0,) * 3, 0.05, 200, plain(wind=(0.45, 0.0, -0.9))
    )
    assert drone.velocity.flatten().tolist() == pytest.approx([0.2, 0.0, -0.4], abs=1e-4)


def test_a_decision_is_flown_in_equal_steps_no_longer_than_allowed():
    one = advance(SECOND_ORDER, still(SECOND_ORDER), column(2.0, 0.0, 0.0), plain(), 0.05)
    three = flown(SECOND_ORDER, still(SECOND_ORDER), (2.0, 0.0, 0.0), 0.05 / 3.0, 3)
    assert all(torch.equal(a, b) for a, b in zip(one[:2], three[:2], strict=True))
    coarse = replace(SECOND_ORDER, longest_step_s=0.05)
    assert not torch.equal(
        one.velocity, flown(coarse, still(coarse), (2.0, 0.0, 0.0), 0.05, 1).velocity
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_drone_flies_alike_in_every_direction(model):
    turn = torch.linspace(0.0, 6.0, 33, dtype=torch.float64)
    cos, sin = turn.cos().float(), turn.sin().float()

    def turned(x, y, z):
        return torch.stack([cos * x - sin * y, sin * x + cos * y, torch.full_like(cos, z)])

    start = turned(0.0, 0.0, 2.0)
    drone = hovering(model, start, start + turned(3.0, 0.0, 1.0))
    response = plain(33)._replace(wind=turned(0.1, 0.3, -0.2))
    for command in ((2.0, 0.0, 0.0), (-1.0, 1.5, 0.5), (3.0, -4.0, -1.0)):
        for _ in range(10):
            drone = advance(model, drone, turned(*command), response, 0.05)
    for field in drone[:2]:
        east, north = cos * field[0] + sin * field[1], cos * field[1] - sin * field[0]
        back = torch.stack([east, north, field[2]])
        assert float((back - back[:, :1]).abs().max()) < 2e-5


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_model_traces_into_one_graph(model):
    drone, command = still(model, 4), column(1.0, -0.5, 0.3).expand(3, 4)
    traced = torch.compile(partial(advance, model), backend="eager", fullgraph=True, dynamic=False)
    one = advance(model, drone, command, plain(4), 0.05)
    two = traced(drone, command, plain(4), 0.05)
    assert torch.equal(one.position, two.position)
    assert torch.equal(one.velocity, two.velocity)


def test_a_goal_straight_above_gives_a_heading_all_the_same():
    start = column(1.0, 2.0, 3.0)
    assert hovering(HUMMINGBIRD, start, start + column(0.0, 0.0, 1.0)).inner[
        0
    ].flatten().tolist() == [1, 0, 0, 0]


def test_the_part_of_a_gap_that_is_closed():
    ratio = torch.cat([torch.logspace(-6.0, 0.0, 601), torch.linspace(1.0, 40.0, 391)])
    found, expected = closed(ratio), -torch.expm1(-ratio.double())
    assert float((found / expected - 1.0).abs()[:601].max()) < 4e-7  # no physics step is beyond 1
    assert float((found - expected).abs().max()) < 5e-4
    assert closed(torch.tensor([90.0, 200.0, 1e30])).tolist() == [1.0, 1.0, 1.0]


def test_speed_limits():
    command = torch.tensor([[3.0, 0.5, 0.0], [-4.0, 0.5, 0.0], [0.0, 0.5, -7.0]])
    assert limit_speed(command, 2.0, "box").t().tolist() == [
        [2.0, -2.0, 0.0],
        [0.5] * 3,
        [0.0, 0.0, -2.0],
    ]
    got = limit_speed(command, 2.0, "norm").t().tolist()
    assert got[0] == pytest.approx([1.2, -1.6, 0.0])
    assert got[1:] == [[0.5] * 3, pytest.approx([0.0, 0.0, -2.0])]


@pytest.mark.parametrize("name", ["gain_per_s", "lag_s", "vertical_limit_mps2", "longest_step_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_impossible_numbers_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"change drone\.{name}"):
        replace(SECOND_ORDER, **{name: value})
