"""The yardsticks of collection and update run, and see what they are there to see."""

import functools

import pytest
import torch

import bench_opponents
import bench_train
from bench_opponents import NOBODY, OPPONENTS
from navrl.config import conf_dir

TINY = ("num_envs=8", "rollout_steps=4", "compile=off", "agent.hidden_sizes=[8]")
MINIBATCHES = ("agent.num_minibatches=2", "agent.num_epochs=1")


@pytest.fixture(autouse=True)
def _generator_as_before():
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.fixture
def counted(monkeypatch):
    """How often every section of a benchmark was called."""
    calls = {}

    def alternate(sections, repeats):
        def counting(name, section):
            calls[name] = calls.get(name, 0) + 1
            return section()

        return original(
            {name: functools.partial(counting, name, it) for name, it in sections.items()}, repeats
        )

    original = bench_train.alternate
    monkeypatch.setattr(bench_train, "alternate", alternate)
    monkeypatch.setattr(bench_opponents, "alternate", alternate)
    return calls


@pytest.mark.parametrize("precision", bench_train.PRECISIONS)
def test_a_training_iteration_and_its_floor_are_timed(precision, counted):
    found = bench_train.measure([*TINY, *MINIBATCHES], precision, repeats=2)
    assert found["num_envs"] == 8
    assert set(counted.values()) == {3}  # two that count, after one that warms
    assert set(found["ms"]) == set(counted)
    assert min(found["ms"].values()) > 0.0
    assert found["ratios"]["frames/s"] == pytest.approx(
        8 * 4 / (found["ms"]["collect"] + found["ms"]["update"]) * 1000.0
    )


def test_alternate_takes_the_median_of_the_turns_after_the_first(monkeypatch):
    # One reading in the turn that warms, two in the others: 1, 5 and 2 ms.
    clock = iter([0.0, 0.1, 0.101, 0.2, 0.205, 0.3, 0.302])
    monkeypatch.setattr(bench_train.time, "perf_counter", lambda: next(clock))
    assert bench_train.alternate({"it": lambda: None}, 3) == pytest.approx({"it": 2.0})


def test_every_kind_of_opponent_collects_beside_nobody(counted):
    kinds = ("straight", "mixture", "checkpoint", "league")
    times_ms = bench_opponents.measure([*TINY, "rollout_steps=2"], kinds, repeats=1)
    assert list(times_ms) == [NOBODY, *kinds] == list(counted)
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
