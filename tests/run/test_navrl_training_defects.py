"""Defects of the published training loop, around simulator and update, that ours does not have.

A run that goes on where it stopped is in test_resume_exact.py, the end of an iteration by its KL in
agents/ppo/test_agent.py, and how often an update reads the device in agents/test_cuda_update.py.
"""

import json

import pytest

from navrl.config.compose import build, compose, to_json

_TINY = (
    *("env=navigation_compat", "agent=ppo_navigation", "compile=off", "eval_episodes=4"),
    *("world.count=1", "world.routes_per_world=4", "world.map.count=9"),
    *("world.difficulty.static=9", "env.sim.time_limit_s=0.08"),
)


@pytest.fixture(scope="module")
def config():
    return compose("train", list(_TINY))


def test_loggers_are_given_plain_data(config):
    """The original handed them its configuration object, which is no data to anybody else."""
    with pytest.raises(TypeError):
        json.dumps(dict(config))
    assert json.loads(json.dumps(to_json(config)))["env"]["name"] == "navigation_compat"


def test_nothing_is_saved_before_anything_is_learned(config, tmp_path):
    saver = build(config.checkpoint)(directory=tmp_path)
    as_published = [i for i in range(99) if i % saver.save_every == 0]
    assert [i for i in range(99) if saver.due(i)] == as_published[1:]
