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


def test_in_a_league_policies_have_seven_of_ten_envs():
    env, _ = bench_opponents.collection([*TINY, "num_envs=100"], "league")
    seated = [block.stop - block.start for block in env.opponent.blocks]
    assert seated[0] == 35  # the newest copy
    assert sum(seated) == 70
    assert len(seated) == 5


def test_verdict_says_which_share_is_too_large():
    assert bench_opponents.verdict(0.15) == ""
    assert bench_opponents.verdict(0.151) == "MISSED"
