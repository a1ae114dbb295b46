"""No direction is special to a drone among obstacles, and what flies stays in the world or ends."""

import functools
import math

import pytest
import torch

from navrl.envs.navigation.observation import GoalFrameObservation, NavRLObservation
from navrl.envs.navigation.sim.advance import near_obstacles
from navrl.envs.navigation.sim.clearance import clearance_in_sight_m
from navrl.envs.navigation.sim.moving_obstacles import Triple
from navrl.envs.navigation.sim.static_obstacles import FAR_M, build_worlds
from tests.envs.navigation.envs import make_env
from tests.envs.navigation.sim.test_lidar import (
    GRID,
    LIDAR,
    TOLERANCE_M,
    random_sensors,
    random_world,
    seen,
)

ANGLES = [0.5 * math.pi, math.pi, -0.5 * math.pi, 0.3, 2.0]


def turned(x, y, angle):
    cos, sin = math.cos(angle), math.sin(angle)
    return x * cos - y * sin, x * sin + y * cos


def turned_world(world, angle):
    """Return the same obstacles turned around the middle; the cells of the grid stay."""
    boxes, cylinders = world.boxes, world.cylinders
    there = boxes.x.abs() < 0.5 * FAR_M
    x, y = turned(boxes.x, boxes.y, angle)
    cos, sin = turned(boxes.cos_yaw, boxes.sin_yaw, angle)
    boxes = boxes._replace(
        x=x.where(there, boxes.x), y=y.where(there, boxes.y), cos_yaw=cos, sin_yaw=sin
    )
    there = cylinders.x.abs() < 0.5 * FAR_M
    x, y = turned(cylinders.x, cylinders.y, angle)
    cylinders = cylinders._replace(x=x.where(there, cylinders.x), y=y.where(there, cylinders.y))
    return build_worlds(GRID, boxes, cylinders, boxes_per_cell=80, cylinders_per_cell=48)


@pytest.mark.parametrize("angle", ANGLES)
def test_a_turned_world_is_sensed_alike_from_a_turned_drone(angle):
    """Distances within rounding; ranges too, but for the few rays that pass an edge by a hair."""
    world, sensors = random_world(11), random_sensors(12, 200)
    x, y, z, cos, sin = (
        field[(sensors[0].square() + sensors[1].square()) < 49.0] for field in sensors
    )
    other, place = turned_world(world, angle), turned(x, y, angle)
    ranges, found = (
        seen(world, (x, y, z, cos, sin)),
        seen(other, (*place, z, *turned(cos, sin, angle))),
    )
    assert ((found >= 0.0) & (found <= LIDAR.range_m)).all()
    assert 0.2 < float((found < LIDAR.range_m).float().mean()) < 0.9
    apart = (found - ranges).abs()
    assert float((apart > TOLERANCE_M).float().mean()) < 2e-3
    number, still = torch.zeros(len(x), dtype=torch.int64), torch.zeros(3, len(x))
    gaps = [
        clearance_in_sight_m(GRID, w, number, torch.stack([*xy, z]), still)
        for w, xy in ((world, (x, y)), (other, place))
    ]
    torch.testing.assert_close(gaps[1], gaps[0], atol=1e-5, rtol=0.0)
    # No beam is shorter than the way to the nearest obstacle, but to the ground.
    level = ranges[:, :, 1:].flatten(1).amin(1)
    assert (level >= gaps[0] - TOLERANCE_M).all()


_MANY = (
    *("world.count=1", "world.routes_per_world=8", "world.renew_episodes=null"),
    *("world.map.count=60", "world.difficulty.static=60", "world.difficulty.moving=64"),
    *("env.sim.moving.count=64", "env.sim.time_limit_s=3"),
)


@functools.cache
def flights():
    """An env with sixty-four flights among many moving obstacles, half a second after the start."""
    env = make_env("world=forest", *_MANY, num_envs=64)
    root = env.reset()
    for _ in range(10):
        action = torch.tensor([0.5, 0.2, 0.0]).expand(64, 3)
        root = env.step_and_maybe_reset(root.copy().set("action", action))[1]
    return env


@pytest.mark.parametrize(
    "kind", [GoalFrameObservation(), NavRLObservation()], ids=["ours", "published"]
)
@pytest.mark.parametrize("angle", ANGLES)
def test_a_turned_and_moved_flight_is_observed_alike(kind, angle):
    """Given the scan, which the turned world has. Within 1e-4: a place at 30 m is stored within 2e-6 m, and
    directions to what is a few centimetres away change most.
    """
    env = flights()
    params, state = env.params, env.state
    kind.prepare(params, "cpu")

    def turn(rows, way=(0.0, 0.0)):
        x, y = turned(rows[0], rows[1], angle)
        return torch.stack([x + way[0], y + way[1], rows[2]])

    way, obstacles = (7.0, -4.0), state.obstacles
    drone = state.drone._replace(
        position=turn(state.drone.position, way), velocity=turn(state.drone.velocity)
    )
    other = state._replace(
        start=turn(state.start, way),
        goal=turn(state.goal, way),
        drone=drone,
        obstacles=obstacles._replace(
            position=Triple(*turn(torch.stack([*obstacles.position]), way)),
            velocity=Triple(*turn(torch.stack([*obstacles.velocity]))),
        ),
    )
    near, there = near_obstacles(params, state), near_obstacles(params, other)
    # Two that are equally far, to the last bits, may change places.
    same = (near.radius_m == there.radius_m).all(0) & (near.present == there.present).all(0)
    assert same.float().mean() > 0.9
    assert near.present.sum() > 64
    found, expected = kind.rows(params, other, there), kind.rows(params, state, near)
    for leaf, rows in expected.items():
        torch.testing.assert_close(found[leaf][..., same], rows[..., same], atol=1e-4, rtol=1e-4)


def test_who_goes_on_is_in_the_world_and_clear_of_obstacles():
    env = make_env(
        "world=forest", *_MANY, "drone=kinematic", "world.routes.z_m=[0.7,3.7]", num_envs=64
    )
    params, root = env.params, env.reset()
    action = 2.0 * torch.rand(64, 3, generator=torch.Generator().manual_seed(0)) - 1.0
    ended = 0
    for _ in range(25):
        before = env.state
        frame, root = env.step_and_maybe_reset(root.copy().set("action", action))
        state, done = env.state, frame["next", "done"].squeeze(-1)
        ended += int(done.sum())
        z = state.drone.position[2]
        assert ((z >= params.floor_m) & (z <= params.ceiling_m))[~done].all()
        assert (state.static_gap_m >= params.body_radius_m)[~done].all()
        assert not near_obstacles(params, state).touches(params.body_radius_m)[~done].any()
        way_m = (state.drone.position - before.drone.position).square().sum(0).sqrt()
        grown_m = state.tally.path_m - before.tally.path_m
        torch.testing.assert_close(grown_m[~done], way_m[~done], atol=1e-4, rtol=0.0)
        assert (state.tally.clearance_m <= before.tally.clearance_m)[~done].all()
        assert ((state.scans >= 0.0) & (state.scans <= params.lidar.range_m)).all()
        most_m = 3**0.5 * params.speed_limit_mps * params.decision_s  # each component has the limit
        assert (way_m <= most_m + 1e-5)[~done].all()
    assert ended > 8
