"""Observations against the layouts of the specification."""

import math

import pytest
import torch

from navrl.envs.navigation.observation import GoalFrameObservation, NavRLObservation
from navrl.envs.navigation.sim.nearest_obstacles import NearObstacles
from tests.envs.navigation.envs import make_env
from tests.envs.navigation.sim.drone_examples import column

_SMALL = (
    "world.renew_episodes=null",
    "world.count=1",
    "world.map.count=1",
    "world.difficulty.static=0",
    "world.routes_per_world=2",
)


@pytest.fixture(scope="module")
def flight():
    """One drone at (1, 2, 1.5), flying (1, 0, 0.5), from (1, 0, 1) to (1, 10, 2)."""
    env = make_env("world=forest", *_SMALL, name="navigation_compat", num_envs=1)
    env.reset()
    state = env.state
    drone = state.drone._replace(position=column(1.0, 2.0, 1.5), velocity=column(1.0, 0.0, 0.5))
    scans = torch.full_like(state.scans, 4.0)
    scans[-1, 4 * 7 + 2] = 1.5  # beam 7, ring 2
    return env.params, state._replace(
        start=column(1.0, 0.0, 1.0), goal=column(1.0, 10.0, 2.0), drone=drone, scans=scans
    )


def around():
    """A block of 0.5 m at (2, 0, 1) from the drone flying (0, 1, 0), a column of 1 m at (0, 3); no more."""
    near = NearObstacles(
        *(torch.zeros(3, 5, 1) for _ in range(2)),
        *(torch.zeros(5, 1) for _ in range(2)),
        *(torch.zeros(5, 1, dtype=torch.bool) for _ in range(2)),
    )
    near.offset[:, 0, 0] = torch.tensor([2.0, 0.0, 1.0])
    near.offset[:, 1, 0] = torch.tensor([0.0, 3.0, 0.0])
    near.velocity[:, 0, 0] = torch.tensor([0.0, 1.0, 0.0])
    near.radius_m[:2, 0] = torch.tensor([0.25, 0.5])
    near.half_height_m[:2, 0] = torch.tensor([0.5, 2.5])
    near.upright[1], near.present[:2] = True, True
    return near


def test_the_published_layout(flight):
    # The goal is north: ahead is y, left is -x.
    params, state = flight
    kind = NavRLObservation()
    kind.prepare(params, "cpu")
    observed = kind.rows(params, state, around())
    far = math.hypot(8.0, 0.5)
    expected = [8.0 / far, 0.0, 0.5 / far, 8.0, 0.5, 0.0, -1.0, 0.5]
    assert observed["state"][:, 0].tolist() == pytest.approx(expected, abs=1e-6)
    away = math.sqrt(5.0)
    block = [0.0, -2.0 / away, 1.0 / away, 2.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    column = [1.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0]
    assert observed["obstacles"][0, :, 0].tolist() == pytest.approx(block, abs=1e-6)
    assert observed["obstacles"][1, :, 0].tolist() == pytest.approx(column, abs=1e-6)
    assert (observed["obstacles"][2:] == 0.0).all()
    assert observed["obstacles_mask"][:, 0].tolist() == [True, True, False, False, False]
    assert observed["lidar"].shape == (1, 36, 4, 1)
    assert observed["lidar"][0, 7, 2, 0] == 2.5
    assert observed["lidar"].sum() == 2.5


def test_our_layout(flight):
    params, state = flight
    kind = GoalFrameObservation()
    kind.prepare(params, "cpu")
    observed = kind.rows(params, state, around())
    far = math.hypot(8.0, 0.5)
    expected = [
        *(8.0 / far, 0.0, 0.5 / far, math.log(1.0 + far) / 4.0, 0.125),
        *(0.0, -0.5, 0.25, 1.3 / 4.0, 2.5 / 4.0),
    ]
    assert observed["state"][:, 0].tolist() == pytest.approx(expected, abs=1e-6)
    away = math.sqrt(5.0)
    gap = math.hypot(2.0 - 0.25, 1.0 - 0.5)
    block = [
        *(0.0, -2.0 / away, 1.0 / away, away / 4.0, gap / 4.0),
        *(0.5, 0.0, 0.0, 0.5, 0.5, -0.25, 0.25, 0.0),
    ]
    assert observed["obstacles"][0, :, 0].tolist() == pytest.approx(block, abs=1e-6)
    assert (observed["obstacles"][2:] == 0.0).all()
    assert observed["lidar"][0, 7, 2, 0] == pytest.approx(2.5 / 4.0)


def test_a_goal_straight_above_gives_a_frame_and_no_nan(flight):
    params, state = flight
    above = state._replace(start=state.goal - torch.tensor([[0.0], [0.0], [1.0]]))
    kind = NavRLObservation()
    kind.prepare(params, "cpu")
    observed = kind.rows(params, above, around())
    assert all(rows.isfinite().all() for rows in observed.values())
    # then ahead is east
    assert observed["state"][5:, 0].tolist() == pytest.approx([1.0, 0.0, 0.5], abs=1e-6)
