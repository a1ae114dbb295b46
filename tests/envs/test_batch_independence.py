"""Env i plays the same episodes, bit for bit, whoever plays beside it: in all worlds, across resets.

Torch computes the last elements of a tensor, those beyond its whole vectors, by other code, and one or two
rows of a product of matrices too. Of the functions that a world might use, atan2, sigmoid, pow and sums over
a first axis then differ in the last bit, so none uses them: but env.sim.model=legacy, where atan2 is the
original's. The worlds of VMAS draw from torch's generator for the whole batch.
"""

import pytest
import torch

from navrl.config.compose import build
from tests.envs.conftest import ENVS, configuration
from tests.envs.playing import assert_same, play, random_actions, stacked

STEPS, MANY = 20, 64
_MOVING = ("env.sim.moving.count=16", "world.difficulty.moving=16", "env.sim.time_limit_s=0.6")
_FEW = ("world.count=2", "world.routes_per_world=4", "world.renew_episodes=null")
_NEAR = ("scenario.range_m=[3000,9000]", "env.sim.time_limit_s=12", "env.sim.tick_s=0.25")
WORLDS = ENVS | {
    "combat, three a side": (
        *("env=combat", "env.team_size=3", "observation=entities", "action=discrete_fine"),
        *("env.sim.channels=2", "opponent=crank", "reward=phase3", *_NEAR),
    ),
    "forest, moving obstacles": (
        "env=navigation",
        "world.map.count=40",
        "world.difficulty.static=40",
        *_FEW,
        *_MOVING,
    ),
    "pillars, moving obstacles": (
        *("env=navigation", "world=pillars", "drone=lee", "shield=on", *_FEW, *_MOVING),
        *("env.sim.noise.range_sigma_m=0.05", "env.sim.noise.dropout=0.1"),
    ),
}
PARTS = [(1, 0), (7, MANY - 7)]  # (envs, id of the first)


def make(name, num_envs, first_env_id=0):
    env = build(configuration(*WORLDS[name]).env)
    return env(num_envs=num_envs, device="cpu", seed=3, first_env_id=first_env_id)


@pytest.mark.parametrize("name", WORLDS)
def test_an_env_plays_the_same_episodes_in_any_batch(name):
    env = make(name, MANY)
    actions = random_actions(env, STEPS, seed=1)
    whole = stacked(play(env, actions))
    assert whole["next", "done"].any(1).sum() > MANY / 4
    for count, first in PARTS:
        rows = slice(first, first + count)
        part = stacked(play(make(name, count, first), [action[rows] for action in actions]))
        assert_same(part, whole[rows])


def test_another_order_of_the_envs_is_another_order_of_the_episodes():
    """The place of an env in the batch means nothing to it: its number is given by first_env_id alone."""
    env, other = (make("combat", 16) for _ in range(2))
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    other._env_id = other._env_id[order]
    actions = random_actions(env, STEPS, seed=1)
    whole = stacked(play(env, actions))
    assert_same(stacked(play(other, [action[order] for action in actions])), whole[order])
