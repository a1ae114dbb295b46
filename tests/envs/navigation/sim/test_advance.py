"""One decision of drone navigation: what counts as a collision, and what the lidar sees."""

import functools
import math

import pytest
import torch

from navrl.envs.navigation.planners.base import perceive
from navrl.envs.navigation.sim.advance import advance, near_obstacles
from navrl.envs.navigation.sim.moving_obstacles import Triple
from navrl.envs.navigation.sim.static_obstacles import (
    FAR_M,
    Boxes,
    Grid,
    absent_cylinders,
    build_worlds,
)
from navrl.view.navigation_recording import play_trips
from tests.envs.navigation.envs import make_env, scanned
from tests.envs.navigation.sim.shapes import clearance

_SMALL = (
    *("world.count=1", "world.routes_per_world=4", "world.renew_episodes=null"),
    *("world.map.count=20", "world.difficulty.static=20", "drone=kinematic"),
)
GRID = Grid(half_extent_m=8.0, cell_m=1.0, reach_m=4.0)


@functools.cache
def shipped(name, *overrides):
    """An env of few obstacles and two flights, reset."""
    env = make_env("world=forest", *_SMALL, *overrides, name=name, num_envs=2)
    env.reset()
    return env


def block(x, y, half_m, bottom_m, top_m):
    """The worlds with one upright box."""
    one = [torch.tensor([[value]]) for value in (x, y, half_m, half_m, 1.0, 0.0, bottom_m, top_m)]
    nothing = absent_cylinders(1, 1)
    return build_worlds(GRID, Boxes(*one), nothing, boxes_per_cell=16, cylinders_per_cell=0)


def stood(env, worlds, place):
    """The state after a decision in which both drones stay at this place, heading along x, nobody around."""
    state = env.state
    position = torch.tensor(place).unsqueeze(-1).expand(3, 2)
    ahead, zero = torch.tensor([[10.0], [0.0], [0.0]]), torch.zeros(3, 2)
    far = torch.full_like(state.obstacles.position.x, FAR_M)
    state = state._replace(
        start=position,
        goal=position + ahead,
        drone=state.drone._replace(position=position, velocity=zero),
        obstacles=state.obstacles._replace(position=Triple(far, far, far)),
        world=torch.zeros_like(state.world),
    )
    return advance(env.params, GRID, worlds, state, zero, zero)[0]


# Passed by all 144 beams from (0, 0, 1.5), and yet nearer than 0.3 m: a low block under the drone, a floating
# one above it, and a rod half way between two azimuths.
_ASIDE = math.radians(5.0)
MISSED = {
    "low": (0.0, 0.0, 0.5, 0.0, 1.25),
    "floating": (0.0, 0.0, 0.5, 1.75, 3.0),
    "thin": (0.28 * math.cos(_ASIDE), 0.28 * math.sin(_ASIDE), 0.005, 0.0, 3.0),
}


@pytest.mark.parametrize("kind", MISSED)
def test_what_no_beam_meets_is_a_collision_here_and_none_in_the_original(kind):
    worlds = block(*MISSED[kind])
    for name, collides in (("navigation", True), ("navigation_compat", False)):
        env = shipped(name)
        after = stood(env, worlds, (0.0, 0.0, 1.5))
        assert after.scans[0].amin() > env.params.body_radius_m
        assert after.ending.hit_static.tolist() == [collides] * 2


@pytest.mark.parametrize("name", ["navigation", "navigation_compat"])
@pytest.mark.parametrize(("gap_m", "collides"), [(0.29, True), (0.31, False)])
def test_a_pillar_ahead_is_hit_at_the_radius_of_the_body(name, gap_m, collides):
    after = stood(shipped(name), block(1.0 + gap_m, 0.0, 1.0, 0.0, 5.0), (0.0, 0.0, 1.5))
    assert after.ending.hit_static.tolist() == [collides] * 2
    assert after.tally.clearance_m.tolist() == pytest.approx([gap_m] * 2, abs=1e-5)


FAST = ("env.sim.speed_limit_mps=20", "env.sim.decision_s=0.05")


@pytest.mark.parametrize(("half_m", "hit"), [(0.02, True), (None, False)])
@pytest.mark.parametrize("level", ["static", "moving"])
def test_no_drone_flies_through_anything_within_a_decision(level, half_m, hit):
    """1 m in a decision, from 0.5 m before to 0.5 m behind what is thinner than that."""
    env, worlds = shipped("navigation", *FAST), block(7.0, 7.0, 0.1, 0.0, 0.1)
    state, zero = env.state, torch.zeros(3, 2)
    far = torch.full_like(state.obstacles.position.x, FAR_M)
    place = Triple(far, far, far)
    if half_m is not None and level == "static":
        worlds = block(0.0, 0.0, half_m, 0.0, 5.0)
    elif half_m is not None:  # the narrowest column, of radius 0.125 m
        place = Triple(
            *(
                rows.index_fill(0, torch.tensor([40]), at)
                for rows, at in zip(place, (0.0, 0.0, 2.5), strict=True)
            )
        )
    start = torch.tensor([[-0.5], [0.0], [1.5]]).expand(3, 2)
    state = state._replace(
        start=start,
        goal=start + torch.tensor([[10.0], [0.0], [0.0]]),
        drone=state.drone._replace(position=start, velocity=zero),
        obstacles=state.obstacles._replace(
            position=place, velocity=Triple(*zero.unsqueeze(1).expand(3, 80, 2))
        ),
        world=torch.zeros_like(state.world),
    )
    command = torch.tensor([[20.0], [0.0], [0.0]]).expand(3, 2)
    after, events = advance(env.params, GRID, worlds, state, command, command)
    assert after.drone.position[0].tolist() == pytest.approx([0.5, 0.5], abs=1e-5)
    assert after.scans[0].amin() > 0.3  # the lidar and the place at the end
    assert not events.near.touches(0.3).any()  # tell of no contact
    assert getattr(after.ending, f"hit_{level}").tolist() == [hit] * 2


def test_a_drone_too_fast_for_its_contact_is_refused():
    """A beam is looked at once a decision, in which a drone must not fly farther than its radius."""
    with pytest.raises(ValueError, match=r"speed_limit_mps = 20.*at most 10\.83, .*contact=exact"):
        make_env("env.sim.speed_limit_mps=20", name="navigation_compat", num_envs=1)
    with pytest.raises(ValueError, match=r"speed_limit_mps = 50.*at most 42\.72, .*decision_s"):
        make_env("env.sim.speed_limit_mps=50", name="navigation", num_envs=1)


def test_an_episode_begins_with_the_distance_at_its_start():
    env = shipped("navigation")
    state, worlds = env.state, env.worlds.openings.worlds
    for number in range(2):
        place = state.start[:, number].double().tolist()
        slow = clearance(worlds.boxes, worlds.cylinders, int(state.world[number]), place)
        assert float(state.static_gap_m[number]) == pytest.approx(min(slow, 4.0), abs=1e-4)


@pytest.mark.parametrize("name", ["navigation", "navigation_compat"])
def test_no_beam_meets_a_moving_obstacle_but_it_is_observed(name):
    """As in the original: moving obstacles are known by place and speed, and no beam meets them."""
    env = shipped(name)
    state = env.state
    before = scanned(env, state)
    beside = [torch.full_like(field, FAR_M) for field in state.obstacles.position]
    for field, own, step_m in zip(beside, state.drone.position, (1.0, 0.0, 0.0), strict=True):
        field[0] = own + step_m
    state = state._replace(obstacles=state.obstacles._replace(position=Triple(*beside)))
    seen = scanned(env, state)
    assert torch.equal(seen, before)
    near = near_obstacles(env.params, state)
    assert near.present[0].all()
    assert near.offset[0, 0].tolist() == pytest.approx([1.0, 1.0], abs=1e-5)


def test_policy_planners_and_replays_observe_the_same_scan():
    """With noise, lost beams and a delay of two decisions; the truth is something else."""
    spoiled = (
        "world.map.count=300",
        "world.difficulty.static=300",
        "env.sim.noise.range_sigma_m=0.1",
        "env.sim.noise.dropout=0.2",
    )
    env = shipped(
        "navigation", *spoiled, "env.sim.scan_latency_decisions=2", "env.sim.time_limit_s=1"
    )
    observed, states = [], []

    def straight_on(root):
        state, params = env.state, env.params
        observed.append((4.0 - 4.0 * root["observation", "lidar"][:, 0]).movedim(0, -1))
        assert torch.allclose(observed[-1], perceive(params, state).ranges, atol=1e-5)
        states.append(state)
        return root.set("action", torch.tensor([0.5, 0.0, 0.0]).expand(2, 3))

    recorded, spoilt = play_trips(env, straight_on, first=0), 0
    for number, trip in enumerate(recorded.trips):
        for knot, ranges in zip(trip.time_s[:-1], trip.ranges_m, strict=False):
            decision = round(knot / 0.05)
            assert torch.allclose(ranges, observed[decision][..., number], atol=1e-5)
            spoilt += int((ranges.flatten() != states[decision].scans[0][:, number]).sum())
    assert spoilt > 100
