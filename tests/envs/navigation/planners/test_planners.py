"""The commands of the planners in scenes small enough to know the answer."""

import math

import pytest
import torch

from navrl.envs.navigation.planners.greedy import Greedy
from navrl.envs.navigation.planners.orca import Orca
from navrl.envs.navigation.planners.potential_field import PotentialField
from navrl.envs.navigation.planners.velocity_obstacles import VelocityObstacles
from tests.envs.navigation.planners.perceptions import LIDAR, closest_m, prediction, sight

SPEEDS = {"speed_mps": 2.0, "slowing_per_s": 1.0}
CHOICE = {"headings": 24, "speeds_mps": (0.667, 1.333, 2.0)}


def command(planner, perception):
    """Return the first command of the planner."""
    planner.prepare(LIDAR)
    flown, _ = planner.act(perception, planner.initial(1, "cpu"))
    return flown[:, 0].tolist()


def field():
    return PotentialField(**SPEEDS, gain=0.05, reach_m=2.0, body_radius_m=0.3, level_m=0.4)


def velocity_obstacles():
    weights = {"danger_weight": 3.0, "danger_offset_s": 0.15, "change_weight": 0.2}
    return VelocityObstacles(**SPEEDS, **CHOICE, **weights, prediction=prediction())


def orca():
    return Orca(**SPEEDS, **CHOICE, prediction=prediction(), planes=16, escape_s=0.1)


def test_greedy_flies_at_the_goal_at_full_speed_whatever_is_there():
    wall_ahead = sight(goal=(6.0, 2.0, 3.0), beams=[(0, 0.5)])
    # (6, 2, 3) is 7 long
    expected = pytest.approx([12.0 / 7.0, 4.0 / 7.0, 6.0 / 7.0], abs=1e-5)
    assert command(Greedy(**SPEEDS), wall_ahead) == expected


def test_greedy_slows_down_at_the_goal_and_stops_there():
    assert command(Greedy(**SPEEDS), sight(goal=(0.0, 0.5, 0.0))) == pytest.approx([0.0, 0.5, 0.0])
    assert command(Greedy(**SPEEDS), sight(goal=(0.0, 0.0, 0.0))) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("planner", [field, velocity_obstacles, orca])
def test_with_nothing_in_sight_every_planner_is_greedy(planner):
    free = sight(goal=(6.0, 2.0, 3.0))
    assert command(planner(), free) == pytest.approx(command(Greedy(**SPEEDS), free), abs=1e-5)


def test_one_beam_pushes_by_the_law_of_the_potential_field():
    # At 1 m to the left, 0.7 m from the body: 0.05 (1 / 0.7 - 1 / 2) / 0.7^2 = 0.09475 m/s to the right.
    x, y, _ = command(field(), sight(goal=(1.0, 0.0, 0.0), beams=[(9, 1.0)]))
    assert (x, y) == (pytest.approx(1.0, abs=1e-4), pytest.approx(-0.09475, abs=1e-4))
    # Beyond its reach of 2 m from the body nothing pushes.
    assert command(field(), sight(goal=(1.0, 0.0, 0.0), beams=[(9, 2.31)]))[1] == 0.0


def test_a_moving_obstacle_pushes_a_potential_field_too():
    # A column of radius 0.25 m, 1.25 m to the right: its surface is 0.7 m from the body, as above.
    column = ((0.0, -1.25), (0.0, 0.0), 0.25)
    y = command(field(), sight(goal=(1.0, 0.0, 0.0), moving=[column]))[1]
    assert y == pytest.approx(0.09475, abs=1e-4)


def test_a_velocity_outside_of_the_cone_of_what_comes_is_chosen():
    """A column of radius 0.25 m, 2 m ahead, comes at 1 m/s; with the margin of 0.5 m a disc of 0.75 m.

    Relative velocities within asin(0.75 / 2) = 22.0 degrees of its direction hit it. Of the fan, 45 degrees
    at 1.333 m/s, relative (1.943, 0.943) at 25.9 degrees, costs least: 1.417 for the detour and 0.267 for
    the change from standing. 45 degrees at 2 m/s costs 1.53 + 0.40, 60 degrees at 0.667 1.76 + 0.13.
    """
    x, y, _ = command(velocity_obstacles(), sight(moving=[((2.0, 0.0), (-1.0, 0.0), 0.25)]))
    assert math.degrees(math.atan2(abs(y), x + 1.0)) > math.degrees(math.asin(0.75 / 2.0))
    assert (x, abs(y)) == (pytest.approx(0.9426, abs=1e-3), pytest.approx(0.9426, abs=1e-3))


def test_velocity_obstacles_prefers_what_it_did_before():
    """The column is dead ahead, so both sides cost the same but for the last command."""
    planner, scene = velocity_obstacles(), sight(moving=[((2.0, 0.0), (-1.0, 0.0), 0.25)])
    planner.prepare(LIDAR)
    for side in (-1.0, 1.0):
        last = torch.tensor([[0.9426], [0.9426 * side]])
        flown, memory = planner.act(scene, (last,))
        assert flown[1, 0].item() == pytest.approx(0.9426 * side, abs=1e-3)
        assert torch.equal(memory[0], flown[:2])


def test_orca_passes_a_pillar_as_near_as_it_may():
    """The tangent to a disc of 0.45 m, 3 m ahead: asin(0.45 / 3) = 8.63 degrees; 2 cos 8.63 long."""
    x, y, _ = command(orca(), sight(beams=[(0, 3.0)]))
    sideways = math.asin(0.15)
    assert math.degrees(math.atan2(abs(y), x)) == pytest.approx(math.degrees(sideways), abs=0.1)
    assert math.hypot(x, y) == pytest.approx(2.0 * math.cos(sideways), abs=1e-3)
    assert closest_m((3.0, 0.0), (0.0, 0.0), (x, y), 2.0) == pytest.approx(0.45, abs=5e-3)


def test_orca_with_no_way_out_takes_the_least_dangerous():
    """Walls all around at 0.6 m, of which 0.45 m are not free: nothing faster than 0.075 m/s lasts 2 s."""
    x, y, _ = command(orca(), sight(beams=[(beam, 0.6) for beam in range(36)]))
    assert math.hypot(x, y) < 0.1
