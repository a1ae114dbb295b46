"""The reward terms against arithmetic."""

import math

import pytest
import torch

from navrl.envs.core.rewards import Transition
from navrl.envs.navigation import rewards as terms
from navrl.envs.navigation.sim.advance import Events
from navrl.envs.navigation.sim.drone import Drone
from navrl.envs.navigation.sim.nearest_obstacles import NearObstacles
from navrl.envs.navigation.sim.state import Ending


class Params:
    decision_s = 0.05
    near_range_m = 4.0


class State:
    """The part of a state that a reward looks at, one env."""

    def __init__(
        self,
        position,
        velocity,
        *,
        goal=(10.0, 0.0, 1.0),
        start=(0.0, 0.0, 1.5),
        ranges=(4.0,),
        **ending,
    ):
        self.start, self.goal = column(start), column(goal)
        self.drone = Drone(column(position), column(velocity), ())
        self.scans = torch.tensor(ranges).view(1, -1, 1)
        self.decision = torch.ones(1)
        none = dict.fromkeys(Ending._fields, False) | ending
        self.ending = Ending(*(torch.tensor([value]) for value in none.values()))


def column(values):
    return torch.tensor(values).unsqueeze(-1)


def near(*obstacles):
    """Moving obstacles as (offset, radius), and one that is not there."""
    offsets = [offset for offset, _ in obstacles] + [(0.0, 0.0, 0.0)]
    radii = [radius for _, radius in obstacles] + [0.0]
    count = len(radii)
    return NearObstacles(
        offset=torch.tensor(offsets).t().unsqueeze(-1),
        velocity=torch.zeros(3, count, 1),
        radius_m=torch.tensor(radii).unsqueeze(-1),
        half_height_m=torch.full((count, 1), 0.5),
        upright=torch.zeros(count, 1, dtype=torch.bool),
        present=torch.tensor([True] * len(obstacles) + [False]).unsqueeze(-1),
    )


def step(before, after, *, around=None, truncated=False, command=(0.0,) * 3, flown=(0.0,) * 3):
    events = Events(around or near(), column(command), column(flown))
    flag = torch.tensor([truncated])
    return Transition(Params, before, after, events, ~flag, flag)


BEFORE = State((0.0, 0.0, 1.0), (1.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("term", "after", "expected"),
    [
        (terms.towards, State((4.0, 8.0, 1.0), (1.0, 2.0, 0.0)), (1.0 * 6.0 - 2.0 * 8.0) / 10.0),
        (terms.progress, State((4.0, 8.0, 1.0), (0.0, 0.0, 0.0)), 0.0),
        (terms.progress, State((3.0, 0.0, 1.0), (0.0, 0.0, 0.0)), 3.0),
        (terms.alive, BEFORE, 1.0),
        (terms.time, BEFORE, 0.05),
        # the original's smoothness was 0 here, because before was a view of after
        (terms.jolt, State((0.0, 0.0, 1.0), (1.0, 3.0, 4.0)), 5.0),
        (terms.jolt_squared, State((0.0, 0.0, 1.0), (1.0, 3.0, 4.0)), 25.0),
        (terms.success, State((10.0, 0.0, 1.0), (0.0, 0.0, 0.0), reached=True), 1.0),
        (terms.collision, State((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), hit_static=True), 1.0),
        (terms.collision, State((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), hit_moving=True), 1.0),
        (terms.collision, State((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), outside=True), 0.0),
        (terms.outside, State((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), outside=True), 1.0),
    ],
)
def test_terms(term, after, expected):
    assert term(step(BEFORE, after)).item() == pytest.approx(expected, abs=1e-6)


def test_a_goal_is_rewarded_once():
    there = State((10.0, 0.0, 1.0), (0.0, 0.0, 0.0), reached=True)
    assert terms.success(step(there, there)).item() == 0.0


def test_a_timeout_needs_that_the_goal_was_not_reached():
    away, there = (State((0.0,) * 3, (0.0,) * 3, reached=reached) for reached in (False, True))
    assert terms.timeout(step(BEFORE, away, truncated=True)).item() == 1.0
    assert terms.timeout(step(BEFORE, there, truncated=True)).item() == 0.0
    assert terms.timeout(step(BEFORE, away)).item() == 0.0


@pytest.mark.parametrize(
    ("height", "expected"), [(1.2, 0.0), (1.7, 0.0), (2.0, 0.09), (0.8, 0.0), (0.5, 0.09)]
)
def test_heights_between_start_and_goal_are_free(height, expected):
    # start at 1.5, goal at 1.0, margin 0.2: free from 0.8 to 1.7
    found = terms.off_height(step(BEFORE, State((0.0, 0.0, height), (0.0,) * 3)), margin_m=0.2)
    assert found.item() == pytest.approx(expected, abs=1e-5)


def test_what_the_lidar_sees_counts_by_its_logarithm():
    seen = State((0.0, 0.0, 1.0), (0.0,) * 3, ranges=(4.0, 1.0, 0.5, 4.0))
    expected = (2.0 * math.log(4.0) + math.log(0.5)) / 4.0
    assert terms.free_sight(step(BEFORE, seen), scale_m=1.0).item() == pytest.approx(expected)
    assert terms.free_sight(step(BEFORE, seen), scale_m=4.0).item() == pytest.approx(
        expected - math.log(4.0)
    )


def test_absent_obstacles_count_as_at_the_end_of_sight():
    around = near(((3.0, 0.0, 0.0), 0.5))  # and one that is not there
    expected = (math.log(2.5) + math.log(4.0)) / 2.0
    found = terms.free_of_moving(step(BEFORE, BEFORE, around=around), scale_m=1.0)
    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("speed", "distance", "expected"), [(0.1, 1.0, 0.05), (0.3, 1.0, 0.0), (0.1, 2.0, 0.0)]
)
def test_loitering_is_being_slow_beside_what_moves(speed, distance, expected):
    after = State((0.0, 0.0, 1.0), (speed, 0.0, 0.0))
    found = terms.loiters(
        step(BEFORE, after, around=near(((distance, 0.0, 0.0), 0.25))), within_m=1.2, speed_mps=0.2
    )
    assert found.item() == pytest.approx(expected)


def test_a_shield_costs_what_it_changes():
    found = terms.intervention(
        step(BEFORE, BEFORE, command=(1.0, 2.0, 0.0), flown=(1.0, -1.0, 4.0))
    )
    assert found.item() == pytest.approx(5.0)
