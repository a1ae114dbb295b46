"""The sound shield: what it calls safe is, by a slow simulation, and it changes no more than it must."""

import functools
import itertools
import math
import random

import pytest
import torch

from navrl.envs.navigation.planners.collision_prediction import MovingPrediction
from navrl.envs.navigation.planners.sound_shield import SoundShield
from navrl.envs.navigation.planners.static_prediction import StaticPrediction, Surroundings
from navrl.envs.navigation.sim.drone import advance
from navrl.envs.navigation.sim.static_obstacles import Boxes, Cylinders, Grid, build_worlds
from tests.envs.navigation.envs import make_env
from tests.envs.navigation.planners.perceptions import (
    HORIZONS_S,
    RESPONSE_S,
    SPEEDS_MPS,
    candidates,
    passed_m,
    sight,
)
from tests.envs.navigation.sim.shapes import clearance

MARGIN_M, BODY_M, HEIGHT_M = 0.35, 0.3, 1.5
SURELY_M = 0.2  # what stays so much farther than the body's radius has to be called safe
GRID = Grid(half_extent_m=8.0, cell_m=1.0, reach_m=4.0)
DECISION_S, STEPS = 0.05, 3


@functools.cache
def shipped(*overrides):
    """An env of one drone, for its parameters."""
    return make_env(
        "shield=sound", "world.count=1", "world.routes_per_world=4", *overrides, num_envs=1
    )


def make_shield():
    """Build the shield of shield=sound."""
    moving = MovingPrediction(
        horizons_s=HORIZONS_S, response_s=RESPONSE_S, moving_margin_m=MARGIN_M
    )
    static = StaticPrediction(horizon_s=1.0, places=6, margin_m=0.02, boxes=8, cylinders=5)
    shield = SoundShield(static=static, moving=moving, headings=24, speeds_mps=SPEEDS_MPS)
    shield.prepare(shipped().params)
    return shield


def standing(boxes, cylinders):
    """What is around one drone: rows of boxes x, y, half, half, yaw, bottom, top, and of cylinders."""
    box = [
        [x, y, u, v, math.cos(yaw), math.sin(yaw), low, top] for x, y, u, v, yaw, low, top in boxes
    ]
    kinds = (
        (Boxes, box or [[1e6, 1e6, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]),
        (
            Cylinders,
            cylinders or [[1e6, 1e6, 0.0, 0.0, 0.0]],
        ),
    )
    made = (kind(*torch.tensor(rows).t().unsqueeze(1)) for kind, rows in kinds)
    worlds = build_worlds(GRID, *made, boxes_per_cell=16, cylinders_per_cell=32)
    return Surroundings(GRID, worlds, torch.zeros(1, dtype=torch.int64))


def flown_m(around, velocity, command, stop_after_s=math.inf):
    """The least distance to anything static in a second of this command, by Euler's method in float64.

    The drone of conf/drone/second_order.yaml, then loops over corners and edges at points at most 2 cm apart.
    """
    place, speed, pull, dt_s = [0.0, 0.0, HEIGHT_M], list(velocity), [0.0] * 3, DECISION_S / STEPS
    least = math.inf
    part = 1.0 - math.exp(-dt_s / 0.16)
    for step in range(round(1.0 / dt_s)):
        wanted = command if step * dt_s < stop_after_s - 1e-9 else (0.0, 0.0, 0.0)
        demand = [2.25 * (c - v) for c, v in zip(wanted, speed, strict=True)]
        shorter = 8.0 / max(8.0, math.hypot(*demand[:2]))
        demand = [demand[0] * shorter, demand[1] * shorter, min(max(demand[2], -6.0), 6.0)]
        pull = [a + part * (d - a) for a, d in zip(pull, demand, strict=True)]
        speed = [v + dt_s * a for v, a in zip(speed, pull, strict=True)]
        for share in (1, 2, 3):
            point = [x + share / 3 * dt_s * v for x, v in zip(place, speed, strict=True)]
            least = min(least, clearance(around.worlds.boxes, around.worlds.cylinders, 0, point))
        place = [x + dt_s * v for x, v in zip(place, speed, strict=True)]
    return least


def drawn_around(drawn):
    """A wall, a floating box, a low box and a column about a drone that none of them touches."""
    boxes, cylinders = [], []
    for long_m, low, top in ((1.5, 0.0, 4.0), (0.4, 1.9, 3.0), (0.4, 0.0, 1.1)):
        angle, away = drawn.uniform(0.0, 2.0 * math.pi), drawn.uniform(0.3, 2.2)
        turn = drawn.uniform(0.0, math.pi)
        boxes.append([away * math.cos(angle), away * math.sin(angle), long_m, 0.15, turn, low, top])
    angle, away = drawn.uniform(0.0, 2.0 * math.pi), drawn.uniform(0.8, 2.5)
    cylinders.append([away * math.cos(angle), away * math.sin(angle), 0.2, 0.0, 5.0])
    return standing(boxes, cylinders)


def drawn_moving(drawn):
    """Up to two columns, none so near that the drone is in one already, and discs with the margin."""
    moving = []
    for _ in range(drawn.randrange(3)):
        angle, away = drawn.uniform(0.0, 2.0 * math.pi), drawn.uniform(1.0, 3.0)
        motion = (drawn.uniform(-1.0, 1.0), drawn.uniform(-1.0, 1.0))
        place = (away * math.cos(angle), away * math.sin(angle))
        moving.append((place, motion, drawn.choice((0.125, 0.25, 0.375, 0.5))))
    return moving, [(place, motion, radius + MARGIN_M) for place, motion, radius in moving]


def test_what_it_calls_safe_is_by_a_slow_simulation_and_nothing_safe_is_nearer():
    drawn, shield = random.Random(0), make_shield()
    passed = changed = levelled = 0
    for _ in range(160):
        around, (moving, discs) = drawn_around(drawn), drawn_moving(drawn)
        velocity = tuple(drawn.uniform(-most, most) for most in (1.5, 1.5, 0.5))
        command = tuple(drawn.uniform(-most, most) for most in (2.0, 2.0, 0.5))
        if flown_m(around, (0.0,) * 3, (0.0,) * 3) < BODY_M:
            continue
        scene = sight(velocity=velocity, moving=moving)
        given = torch.tensor(command).unsqueeze(1)
        flown, differs, safe = shield.protect(scene, around, given)
        assert differs.item() == (not torch.equal(flown, given))
        found = tuple(flown[:, 0].tolist())
        if safe.item():
            assert flown_m(around, velocity, found) >= BODY_M
            # A margin of 0 decides about what moves.
            assert passed_m(discs, velocity, found) > -1e-3

        def surely(each, around=around, velocity=velocity, discs=discs):
            far = BODY_M + SURELY_M
            return (
                passed_m(discs, velocity, each) > 1e-3
                and flown_m(around, velocity, each) > far
                and flown_m(around, velocity, each, stop_after_s=DECISION_S) > far
            )

        if surely(command):
            assert not differs.item()
            passed += 1
        elif safe.item() and differs.item():
            if found[2] == 0.0 != command[2]:
                levelled += 1
                continue  # the fan is at another height
            least = math.dist(found[:2], command[:2])
            nearer = [c for c in candidates(command) if math.dist(c, command[:2]) < least - 1e-4]
            assert not any(surely((*each, command[2])) for each in nearer)
            changed += 1
    assert passed > 10
    assert changed > 20
    assert levelled > 0


def test_a_drone_between_walls_stays():
    """Walls 0.36 m away on all sides: whatever is commanded, only to stay is safe."""
    sides = [
        (1.36, 0.0, 1.0, 2.5),
        (-1.36, 0.0, 1.0, 2.5),
        (0.0, 1.36, 2.5, 1.0),
        (0.0, -1.36, 2.5, 1.0),
    ]
    around = standing([[*side, 0.0, 0.0, 5.0] for side in sides], [])
    flown, _, safe = make_shield().protect(sight(), around, torch.tensor([[2.0], [0.0], [0.0]]))
    assert flown.abs().max() == 0.0
    assert safe.item()


@pytest.mark.parametrize(("climb", "box"), [(1.0, (2.2, 3.0)), (-1.0, (0.0, 0.8))])
def test_nothing_is_climbed_into_that_no_beam_of_the_lidar_meets(climb, box):
    """A plate 0.7 m above or below: at 1 m/s it comes within 0.3 m in a second, level flight does not."""
    around = standing([[0.0, 0.0, 3.0, 3.0, 0.0, *box]], [])
    flown, _, safe = make_shield().protect(sight(), around, torch.tensor([[1.0], [0.0], [climb]]))
    assert flown[:, 0].tolist() == pytest.approx([1.0, 0.0, 0.0])
    assert safe.item()


def test_more_obstacles_than_it_looks_at_are_not_flown_into():
    """Twenty rods on a circle of 0.9 m: it knows five, and leaves what it knows nothing of alone."""
    angles = [2.0 * math.pi * number / 20 for number in range(20)]
    around = standing(
        [],
        [[0.9 * math.cos(a), 0.9 * math.sin(a), 0.02, 0.0, 5.0] for a in angles[:16]]
        + [[1.0 * math.cos(a), 1.0 * math.sin(a), 0.02, 0.0, 5.0] for a in angles[16:]],
    )
    shield = make_shield()
    for angle, speed in itertools.product(angles, (1.0, 2.0)):
        command = torch.tensor([[speed * math.cos(angle)], [speed * math.sin(angle)], [0.0]])
        flown, _, safe = shield.protect(sight(), around, command)
        assert safe.item()
        assert flown_m(around, (0.0,) * 3, tuple(flown[:, 0].tolist())) >= BODY_M


@pytest.mark.parametrize("drone", ["kinematic", "first_order", "second_order"])
def test_the_way_is_that_of_the_drone(drone):
    """Nothing is near: half of the second's horizon, from the places, is where the model flies to."""
    env = shipped(f"drone={drone}")
    params, state = env.params, env.state if env.reset() is not None else None
    static = StaticPrediction(horizon_s=1.0, places=2, margin_m=0.0, boxes=4, cylinders=4)
    static.prepare(params)
    draw = torch.Generator().manual_seed(0)
    velocity, pull, command = (torch.rand(3, 1, generator=draw) - 0.5 for _ in range(3))
    inner = (pull,) if drone == "second_order" else state.drone.inner
    at = state.drone._replace(velocity=velocity, inner=inner)
    for number, time_s in enumerate(static.held.times_s):
        ended = advance(params.drone, at, command, state.factors, time_s)
        expected = ended.position - at.position
        found = (
            static.held.by_velocity_s[number] * velocity
            + static.held.by_acceleration_s2[number] * params.drone.acceleration(at)
            + static.held.by_command_s[number] * command
        )
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0.0)
