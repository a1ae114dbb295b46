"""Defects of the published simulator that ours does not have, by their numbers in the list of defects.

Each test repeats, in a few lines, the behaviour of the original, and shows that ours differs.
"""

import weakref

import pytest
import torch

from navrl.run.episodes import play
from tests.envs.navigation.envs import make_env, scanned

_SMALL = (
    *("world=forest", "env.sim.time_limit_s=0.48", "world.count=3", "world.routes_per_world=8"),
    *("world.map.count=30", "world.difficulty.static=30", "world.map.half_side_m=8"),
    *("world.routes.x_m=[-8,8]", "world.routes.y_m=[-8,8]", "world.routes.distance_m=[4,16]"),
)


def small_env(*overrides, name="navigation_compat", num_envs=16):
    return make_env(*_SMALL, *overrides, name=name, num_envs=num_envs)


def ahead(root):
    return root.set("action", torch.tensor([1.0, 0.0, 0.0]).expand(root.shape[0], 3))


@pytest.mark.parametrize("stale", [False, True])
def test_3_an_episode_begins_with_a_scan_of_its_own(stale):
    env = small_env(f"env.stale_scan={stale}")
    root = env.reset()
    for _ in range(30):  # of 0.016 s: the time is up
        stepped, root = env.step_and_maybe_reset(ahead(root))
    done = stepped["next", "done"][:, 0]
    assert done.any()
    last, first = (frame["observation", "lidar"][done] for frame in (stepped["next"], root))
    assert torch.equal(last, first) == stale  # stale=true is what the original did
    state = env.state
    ranges = scanned(env, state)
    assert torch.allclose(state.scans[0][:, done], ranges[:, done], atol=1e-4) != stale


def test_4_without_moving_obstacles_the_layout_stays():
    shapes = []
    for moving in (0, 80):
        env = small_env(f"world.difficulty.moving={moving}")
        root = env.reset()
        shapes.append(root["observation", "obstacles"].shape)
        assert env.observation_spec.is_in(root.select("observation", "episode"))
        if moving == 0:
            assert not root["observation", "obstacles_mask"].any()
            assert not env.state.ending.hit_moving.any()
    as_published = (16, 5, 8)  # eight columns of ten
    assert shapes == [(16, 5, 10)] * 2 != [as_published] * 2


def test_5_placement_uses_neither_the_clock_nor_shared_random_numbers():
    made = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        torch.rand(noise)
        env, shared = small_env(), torch.rand(16)
        env.reset()
        made.append((env.worlds.openings.worlds.boxes.x.clone(), env.state, shared))
    (boxes, state, shared), (other_boxes, other_state, other_shared) = made
    assert torch.equal(boxes, other_boxes)
    assert torch.equal(state.obstacles.position.x, other_state.obstacles.position.x)
    assert torch.equal(state.start, other_state.start)
    assert not torch.equal(shared, other_shared)  # what a placement by shared numbers would be

    env.reset()
    before = torch.get_rng_state()
    with env.other_episodes(5):
        env.reset()
    assert torch.equal(torch.get_rng_state(), before)  # the original seeded everything anew


@pytest.mark.parametrize("hoarding", [False, True])
def test_9_an_evaluation_keeps_no_transitions(hoarding):
    """Keep at most the last two observations alive; the original kept them all."""
    env = small_env("env.sim.time_limit_s=0.24")
    observed, kept, alive = [], [], []

    def policy(root):
        alive.append(sum(each() is not None for each in observed))
        observed.append(weakref.ref(root["observation", "lidar"]))
        if hoarding:
            kept.append(root["observation", "lidar"])
        return ahead(root)

    ends = play(env, policy, deterministic=True)
    assert len(ends["success"]) == 16
    assert len(observed) >= 15
    assert (max(alive) > 4) == hoarding


@pytest.mark.parametrize("behind_its_back", [False, True])
def test_10_after_an_evaluation_the_next_step_belongs_to_the_last_observation(behind_its_back):
    env, twin = small_env(), small_env()
    roots = [each.reset() for each in (env, twin)]
    for _ in range(5):
        roots = [
            each.step_and_maybe_reset(ahead(r))[1]
            for each, r in zip((env, twin), roots, strict=True)
        ]
    if behind_its_back:
        env.reset()  # what the original's evaluation did to the env of its collector
    else:
        with env.other_episodes(3):
            play(env, ahead, deterministic=True)
    stepped = [
        each.step_and_maybe_reset(ahead(r))[0] for each, r in zip((env, twin), roots, strict=True)
    ]
    states = [each["next", "observation", "state"] for each in stepped]
    assert torch.equal(*states) != behind_its_back


def test_4_5_9_our_inputs_are_about_one_and_the_published_ones_up_to_tens():
    largest = {}
    for name in ("navigation", "navigation_compat"):
        env = small_env("world.routes.distance_m=[10,16]", name=name)
        root = env.reset()
        for _ in range(5):
            _, root = env.step_and_maybe_reset(ahead(root))
        observed = root["observation"]
        largest[name] = max(
            observed[leaf].abs().max().item() for leaf in ("state", "lidar", "obstacles")
        )
    assert largest["navigation"] <= 3.0
    assert largest["navigation_compat"] >= 9.0


def test_4_5_10_an_absent_obstacle_differs_from_the_narrowest():
    env = small_env(num_envs=64)
    observed = env.reset()["observation"]
    mask, rows = observed["obstacles_mask"], observed["obstacles"]
    assert mask.any()
    assert not mask.all()
    assert (rows[~mask] == 0.0).all()
    as_published = rows[..., 8] == 0.0  # the class of width, all that the original shows
    assert (as_published & mask).any()
