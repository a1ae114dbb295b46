"""The quadrotor against a second one in float64, and against the step responses that were measured."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from navrl.envs.navigation.sim.drone import advance, hovering
from tests.envs.navigation.sim.drone_examples import HUMMINGBIRD, column, plain
from tests.envs.navigation.sim.quadrotor import Quadrotor

COMMANDS = [(2.0, 0.0, 0.0), (-2.0, 1.5, 0.5), (0.0, -3.0, -1.0), (0.0, 0.0, 2.0)]  # 0.48 s each


def flight(command, seconds, drone=None, dt=0.016, response=None):
    """The drone after, and its rows (time, vx, ax, x, z, tilt in degrees)."""
    drone = drone or hovering(HUMMINGBIRD, column(0.0, 0.0, 2.0), column(1.0, 0.0, 2.0))
    rows = []
    for step in range(1, round(seconds / dt) + 1):
        after = advance(HUMMINGBIRD, drone, column(*command), response or plain(), dt)
        speed, before = float(after.velocity[0]), float(drone.velocity[0])
        _, x, y, _ = after.inner[0].flatten().tolist()
        tilt = math.degrees(math.acos(1.0 - 2.0 * (x * x + y * y)))
        place = float(after.position[0]), float(after.position[2])
        rows.append((step * dt, speed, (speed - before) / dt, *place, tilt))
        drone = after
    return drone, torch.tensor(rows).t()


def test_the_step_response_is_the_one_measured():
    cruise, (time, speed, acceleration, x, z, tilt) = flight((2.0, 0.0, 0.0), 4.0)
    rises = [float(time[speed >= 2.0 * part][0]) for part in (0.1, 0.632, 0.9)]
    assert rises == pytest.approx([0.19, 0.50, 0.82], abs=0.012)  # to a step of 0.016 s
    assert float(speed.max()) < 2.001  # no overshoot
    assert float(tilt.max()) == pytest.approx(22.0, abs=0.6)
    assert float(acceleration.max()) == pytest.approx(3.9, abs=0.06)
    assert 2.0 - float(z.min()) == pytest.approx(0.04, abs=0.005)
    _, braking = flight((0.0, 0.0, 0.0), 4.0, cruise)
    assert float(braking[3, -1] - x[-1]) == pytest.approx(0.90, abs=0.01)
    _, (_, _, acceleration, back, low, tilt) = flight((-2.0, 0.0, 0.0), 4.0, cruise)
    assert float(back.max() - x[-1]) == pytest.approx(0.52, abs=0.01)
    assert float(tilt.max()) == pytest.approx(40.0, abs=0.6)
    assert float(-acceleration.min()) == pytest.approx(7.4, abs=0.06)
    assert 2.0 - float(low.min()) == pytest.approx(0.14, abs=0.005)


def twin(commands):
    """Position and velocity after each of the commands, by the other quadrotor at 1.6 ms."""
    other = Quadrotor(HUMMINGBIRD)
    state, found = other.hovering(np.array([0.0, 0.0, 2.0]), 0.7), []
    for command in commands:
        state = other.flown(state, np.array(command), 0.0016, 300)
        found.append(state)
    return np.stack(found)


def test_it_is_the_other_quadrotor_up_to_the_error_of_its_step():
    expected = twin(COMMANDS)
    errors = []
    for dt in (0.016, 0.0016):
        fine = replace(HUMMINGBIRD, longest_step_s=dt)
        ahead = column(math.cos(0.7), math.sin(0.7), 2.0)
        drone = hovering(fine, column(0.0, 0.0, 2.0), ahead)
        worst = np.zeros(3)
        for command, state in zip(COMMANDS, expected, strict=True):
            drone = advance(fine, drone, column(*command), plain(), 0.48)
            w, x, y, z = drone.inner[0].flatten().tolist()
            nose = np.array(
                [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)]
            )
            differences = [
                drone.position.flatten().numpy() - state[:3],
                drone.velocity.flatten().numpy() - state[3:6],
                nose - state[6:15].reshape(3, 3)[:, 0],
            ]
            worst = np.maximum(worst, [np.abs(each).max() for each in differences])
        errors.append(worst)
    assert (errors[0] < [0.1, 0.1, 0.1]).all()
    assert (errors[1] < 0.15 * errors[0] + 1e-4).all()  # a tenth of the step, a tenth of the error


def test_it_hovers():
    drone = hovering(HUMMINGBIRD, column(1.0, 2.0, 3.0), column(-5.0, -4.0, 3.0))
    for _ in range(600):
        drone = advance(HUMMINGBIRD, drone, column(0.0, 0.0, 0.0), plain(), 0.05)
    assert drone.position.flatten().tolist() == pytest.approx([1.0, 2.0, 3.0], abs=1e-4)
    assert drone.velocity.abs().max() < 1e-5
    w, x, y, z = drone.inner[0].flatten().tolist()
    assert (x, y) == (0.0, 0.0)
    assert 2.0 * math.atan2(z, w) % (2.0 * math.pi) == pytest.approx(math.pi * 1.25, abs=1e-5)


@pytest.mark.parametrize("yaw", [0.0, 0.3, 1.6, math.pi, -3.1, -1.5, -0.2])
def test_it_begins_with_its_nose_to_the_goal(yaw):
    ahead = column(4.0 * math.cos(yaw), 4.0 * math.sin(yaw), 1.0)
    w, x, y, z = hovering(HUMMINGBIRD, column(0.0, 0.0, 0.0), ahead).inner[0].flatten().tolist()
    assert (x, y) == (0.0, 0.0)
    assert [w * w - z * z, 2.0 * w * z] == pytest.approx([math.cos(yaw), math.sin(yaw)], abs=1e-6)
    assert w * w + z * z == pytest.approx(1.0, abs=1e-6)


def test_the_wind_pushes_it_as_far_as_the_gain_allows():
    _, rows = flight((0.0, 0.0, 0.0), 8.0, response=plain(wind=(0.44, 0.0, 0.0)))
    assert float(rows[1, -1]) == pytest.approx(0.44 / 2.2, abs=1e-3)
    _, rows = flight((0.0, 0.0, 0.0), 8.0, response=plain(wind=(0.44, 0.0, 0.0), gain=2.0))
    assert float(rows[1, -1]) == pytest.approx(0.44 / 4.4, abs=1e-3)


def test_it_recovers_from_flying_fast_the_other_way_at_full_thrust():
    drone, _ = flight((20.0, 0.0, 0.0), 6.0)
    drone, rows = flight((-20.0, 0.0, 20.0), 12.0, drone)
    assert drone.velocity.flatten().tolist() == pytest.approx([-20.0, 0.0, 20.0], abs=0.01)
    assert drone.inner[0].norm() == pytest.approx(1.0, abs=1e-6)
    assert float(rows[2].abs().max()) < 4.0 * HUMMINGBIRD.rotor_thrust_n / HUMMINGBIRD.mass_kg


def test_a_drone_too_heavy_for_its_rotors_is_refused():
    with pytest.raises(ValueError, match=r"more than a quarter of the weight, 14\.7 N"):
        replace(HUMMINGBIRD, mass_kg=6.0)


def test_slower_rotors_follow_later():
    flights = [
        flight((2.0, 0.0, 0.0), 0.5, dt=0.002, response=plain(lag=lag))[1] for lag in (1, 1.3, 3)
    ]
    times = [float(rows[0][rows[1] >= 0.2][0]) for rows in flights]
    assert times[0] < times[1] < times[2]
