"""scripts/bench_opponents.py: every opponent is measured against none."""

import pytest
import torch

import bench_opponents
from bench_opponents import NOBODY, OPPONENTS
from navrl.config.compose import conf_dir

TINY = ("num_envs=8", "rollout_steps=2", "compile=off", "agent.network.hidden_sizes=[8]")


@pytest.fixture(autouse=True)
def _generator_as_before():
    with torch.random.fork_rng(devices=[]):
        yield


def test_every_kind_of_opponent_collects_beside_nobody():
    kinds = ("straight", "mixture", "checkpoint", "league")
    times_ms = bench_opponents.measure([*TINY, "rollout_steps=2"], kinds, repeats=1)
    assert list(times_ms) == [NOBODY, *kinds]
    assert min(times_ms.values()) > 0.0


def test_every_pilot_of_conf_opponent_is_measured():
    assert sorted(OPPONENTS) == sorted(path.stem for path in (conf_dir() / "opponent").iterdir())
