"""Drone navigation as a TorchRL env: the ends of episodes, their observations, and their worlds."""

import math

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from navrl.envs.navigation.worlds.pool import Difficulty
from tests.envs.navigation.envs import make_env
from tests.envs.navigation.sim.shapes import clearance

_EMPTY = (
    *("world.count=1", "world.renew_episodes=null"),
    *("world.routes_per_world=8", "world.map.count=1", "world.difficulty.static=0"),
    *("world.difficulty.moving=0", "drone=kinematic", "world.routes.distance_m=[6,12]"),
)
_CROWDED = (
    *("world.count=2", "world.routes_per_world=8"),
    *("world.map.count=60", "world.difficulty.static=60", "env.sim.time_limit_s=1"),
)


def fly(env, action, steps, root=None):
    """Every "next" of so many steps with one action for all."""
    root = env.reset() if root is None else root
    frames = []
    for _ in range(steps):
        stepped, root = env.step_and_maybe_reset(root.copy().set("action", action))
        frames.append(stepped["next"])
    return frames


def statistic(env, frame, name):
    return frame["episode"][:, env.episode_keys.index(name)]


def ahead(num_envs=8):
    return torch.tensor([1.0, 0.0, 0.0]).expand(num_envs, 3)


def test_straight_ahead_arrives_when_the_way_is_free():
    env = make_env(*_EMPTY, "env.sim.frame=frozen", "world.routes.z_m=[1.4,1.6]")
    ends, root = {}, env.reset()
    decisions_of = level_flights(env)
    assert decisions_of
    for count in range(1, 140):
        stepped, root = env.step_and_maybe_reset(root.copy().set("action", ahead()))
        for number in stepped["next", "done"].squeeze(-1).nonzero().flatten().tolist():
            ends.setdefault(number, (count, stepped["next", "episode"][number]))
    assert set(ends) >= set(decisions_of)
    lost = [end for _, end in ends.values() if end[env.episode_keys.index("success")] == 0.0]
    assert all(end[env.episode_keys.index("goal_time_s")] == 0.0 for end in lost)
    for number, expected in decisions_of.items():
        count, end = ends[number]
        assert count == expected
        assert end[env.episode_keys.index("success")] == 1.0
        assert end[env.episode_keys.index("goal_time_s")] == pytest.approx(
            0.05 * expected, rel=1e-4
        )
        assert end[env.episode_keys.index("spl")] > 0.97


def level_flights(env):
    """Decisions until a level flight at 2 m/s is within half a metre of the goal, by env."""
    state = env.state
    way = state.goal - state.start
    found = {}
    for number in range(way.shape[1]):
        x, y, z = way[:, number].tolist()
        if abs(z) < 0.45:
            far_m = math.hypot(x, y) - math.sqrt(0.25 - z * z)
            found[number] = math.floor(far_m / 0.1) + 1
    return found


def test_the_five_endings_exclude_each_other():
    env = make_env(
        *_CROWDED,
        "world.map.half_side_m=6",
        "world.routes.x_m=[-6,6]",
        "world.routes.y_m=[-6,6]",
        "world.routes.distance_m=[2,8]",
        "env.sim.time_limit_s=4",
        num_envs=160,
    )
    torch.manual_seed(0)
    root, seen = env.reset(), torch.zeros(5)
    names = ("success", "collision_static", "collision_moving", "outside", "timeout")
    for _ in range(100):
        action = (torch.rand(160, 3) * 2.0 - 1.0) * 0.5 + ahead(160) * 0.5
        stepped, root = env.step_and_maybe_reset(root.copy().set("action", action))
        done = stepped["next", "done"].squeeze(-1)
        ends = torch.stack([statistic(env, stepped["next"], name) for name in names])[:, done]
        assert (ends.sum(0) == 1.0).all()
        seen += ends.sum(1)
    assert (seen > 0).sum() >= 3


def test_evaluation_flies_in_worlds_that_training_has_not():
    env = make_env(*_CROWDED)
    training = env.worlds.openings.worlds.boxes.x[:2].clone()
    env.reset()
    before = env.runtime_state()
    with env.other_episodes(0):
        held_out = env.worlds.openings.worlds.boxes.x[:2].clone()
        env.reset()
    there = training[training < 1e5]
    assert not torch.isin(held_out[held_out < 1e5], there).any()
    assert torch.equal(env.worlds.openings.worlds.boxes.x[:2], training)
    after = env.runtime_state()
    assert all(torch.equal(a, b) for a, b in zip(before["world"], after["world"], strict=True))


def test_other_worlds_come_while_older_episodes_end_in_theirs():
    env = make_env(*_CROWDED, "world.renew_episodes=1")  # as many as the longest episode has
    root = env.reset()
    tables = env.worlds.openings
    first_worlds = tables.worlds.boxes.x[:2].clone()
    for step in range(1, 46):
        _, root = env.step_and_maybe_reset(root.copy().set("action", torch.zeros(8, 3)))
        state = env.state
        if step == 21:  # the first step after the renewal
            assert tables.first == 2
            assert torch.equal(tables.worlds.boxes.x[:2], first_worlds)
        assert ((state.world >= 0) & (state.world < 4)).all()
    assert tables.first == 0
    assert not torch.equal(tables.worlds.boxes.x[:2], first_worlds)


def test_a_fresh_env_goes_on_bit_for_bit_over_renewals():
    env, twin = (make_env(*_CROWDED, "world.renew_episodes=1") for _ in range(2))
    fly(env, ahead(), 30)
    twin.load_runtime_state(env.runtime_state())
    for one, other in zip(_on(env, 40), _on(twin, 40), strict=True):
        for key in (("observation", "lidar"), ("observation", "state"), "reward", "episode"):
            assert torch.equal(one[key], other[key])


def _on(env, steps):
    """Go on without a reset."""
    frames = []
    for _ in range(steps):
        stepped, _ = env.step_and_maybe_reset(TensorDict({"action": ahead()}, batch_size=[8]))
        frames.append(stepped["next"])
    return frames


def test_a_latency_of_two_decisions_delays_the_first_command_by_two():
    late, prompt = (make_env(*_EMPTY, f"env.sim.vary.latency_decisions=[{n},{n}]") for n in (2, 0))
    paths = [
        torch.stack([statistic(env, f, "path_m") for f in fly(env, ahead(), 6)])
        for env in (late, prompt)
    ]
    assert (paths[0][:2] == 0.0).all()
    assert torch.allclose(paths[0][2:], paths[1][:4], atol=1e-5)


def test_harder_worlds_hold_the_configured_obstacles():
    env = make_env(*_CROWDED)
    env.set_stages([Difficulty(10, 8), Difficulty(50, 40)], {0: 0.5, 1: 0.5})
    env.start_over()
    there = (env.worlds.openings.worlds.boxes.x < 1e5).sum(-1)
    there = there + (env.worlds.openings.worlds.cylinders.x < 1e5).sum(-1)
    assert sorted(there[:2].tolist()) == [10, 50]
    env.reset()
    state = env.state
    moving = (state.obstacles.position.x < 1e5).sum(0)
    assert torch.equal(moving, torch.where(state.stage == 0, 8, 40))


def test_stages_need_worlds_that_are_renewed():
    env = make_env(*_CROWDED, "world.renew_episodes=null")
    with pytest.raises(ValueError, match=r"change world\.renew_episodes"):
        env.set_stages([Difficulty(10, 8), Difficulty(50, 40)], {0: 1.0})


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("world.difficulty.static=61", "world.difficulty.static"),
        ("world.renew_episodes=0.5", "world.renew_episodes"),
        ("env.sim.ceiling_m=0.1", "env.sim.ceiling_m"),
        ("env.sim.time_limit_s=inf", "env.sim.time_limit_s = inf"),
        ("env.sim.vary.gain=[0,1]", "env.sim.vary.gain"),
        ("env.sim.vary.latency_decisions=[0,21]", "env.sim.vary.latency_decisions"),
        ("world.routes.z_m=[3,5]", "world.routes.z_m"),
        ("env.sim.side_limit_m=5", "env.sim.side_limit_m"),
        ("env.sim.frame=body", "env.sim.frame"),
        ("env.sim.speed_limit=cube", "env.sim.speed_limit"),
    ],
)
def test_impossible_options_are_refused_by_name(override, message):
    with pytest.raises(ValueError, match=message):
        make_env(*_CROWDED, override)


def test_an_env_flies_in_the_world_of_a_file(tmp_path):
    heights = np.zeros((40, 40))
    heights[5::6, 5::6] = 2.5
    np.save(tmp_path / "map.npy", heights)
    scale = ("resolution_m=0.5", "height_scale_m=1", "origin_m=[-10,-10,0]")
    env = make_env(
        *("world=file", f"world.map.path={tmp_path / 'map.npy'}", "world.routes_per_world=8"),
        *(f"world.map.scale.{option}" for option in scale),
        *("world.routes.x_m=[-10,10]", "world.routes.y_m=[-10,10]"),
        "world.routes.distance_m=[4,9]",
    )
    obstacles = env.worlds.openings.worlds[:2]
    for place in env.worlds.openings.start[0].double().tolist():
        assert clearance(*obstacles, 0, place) >= 0.6 - 1e-5
    frames = fly(env, ahead(), 40)
    assert all(frame["observation", "state"].isfinite().all() for frame in frames)
