"""The yardsticks of collection and update run, and see what they are there to see."""

import pytest
import torch

import bench_opponents
from bench_opponents import NOBODY, OPPONENTS
from navrl.commands import bench as measuring
from navrl.commands.bench import Timing, Training, alternate, measure, timings
from navrl.config.compose import compose, conf_dir
from navrl.run.timers import Spread

TINY = ("num_envs=8", "rollout_steps=4", "compile=off", "agent.network.hidden_sizes=[8]")
MINIBATCHES = ("agent.num_minibatches=2", "agent.num_epochs=1")
TEAM = ("env=alice_and_bob", "num_envs=8", "rollout_steps=4", "compile=off")


@pytest.fixture(autouse=True)
def _generator_as_before():
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.fixture
def trained():
    """A Training of these options, closed in the end."""
    opened = []

    def make(*overrides):
        opened.append(Training(compose("train", list(overrides))))
        return opened[-1]

    yield make
    for training in opened:
        training.close()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_iteration_is_taken_apart(trained, precision):
    training, turns = trained(*TINY, *MINIBATCHES, f"agent.network.precision={precision}"), []
    found = measure(training, 2, lambda: turns.append(1))
    assert len(turns) == 3  # two that count, after one that warms
    assert training.frames == 32
    assert list(found) == [
        *("collect", "  simulator", "  policy"),
        *("update", "  values, advantages", "  gradient steps", "iteration"),
    ]
    assert all(timing.floor_ms is not None for timing in found.values())
    assert min(timing.p50_ms for timing in found.values()) > 0.0


def test_the_floor_makes_the_same_gradient_steps(trained):
    training = trained(*TINY, "agent.num_minibatches=4", "agent.num_epochs=3")
    learning, rows = measuring.Learning(training), []
    learning._policy.register_forward_hook(lambda _, inputs, out: rows.append(out.shape[0]))
    learning.steps_bare()
    assert rows == [8] * 12
    learning._critic.register_forward_hook(lambda _, inputs, out: rows.append(out.shape[0]))
    learning.values_bare()
    assert rows[12:] == [32]  # every frame once
    (count,) = {int(state["step"]) for state in learning._adam.state.values()}
    assert count == 12
    learned = sum(p.numel() for p in training.agent.parameters)
    assert sum(p.numel() for p in learning._adam.param_groups[0]["params"]) == learned


@pytest.mark.parametrize("agent", ["mappo", "hmasd"])
def test_agents_of_teams_are_taken_apart(trained, agent):
    found = measure(trained(*TEAM, f"agent={agent}"), 1, lambda: None)
    assert found["  simulator"].floor_ms is not None
    assert (found["update"].floor_ms is None) == (agent == "hmasd")  # nobody has taken that apart


def test_wholes_have_the_floors_of_their_parts():
    spreads = {
        "collect": Spread(4.0, 5.0),
        "update": Spread(6.0, 8.0),
        "  simulator": Spread(1.0, 1.0),
        "floor of   simulator": Spread(0.5, 9.0),
        "  policy": Spread(2.0, 2.0),
        "floor of   policy": Spread(1.5, 9.0),
        "  values, advantages": Spread(1.0, 1.0),
        "floor of   values, advantages": Spread(0.25, 9.0),
        "  gradient steps": Spread(5.0, 5.0),
        "floor of   gradient steps": Spread(4.0, 9.0),
    }
    found = timings(spreads)
    assert found["collect"] == Timing(4000.0, 5000.0, 2000.0)
    assert found["update"] == Timing(6000.0, 8000.0, 4250.0)
    assert found["iteration"] == Timing(10000.0, 13000.0, 6250.0)
    del spreads["floor of   gradient steps"]
    assert timings(spreads)["iteration"].floor_ms is None


def test_alternate_takes_the_median_of_the_turns_after_the_first(monkeypatch):
    # One reading in the turn that warms, then 1, 5 and 2 ms.
    clock = iter([0.0, 0.1, 0.1, 0.101, 0.2, 0.205, 0.3, 0.302])
    monkeypatch.setattr(measuring, "Sections", lambda *_, window: _sections(window, clock))
    assert alternate({"it": lambda: None}, 3)["it"] == pytest.approx((0.002, 0.005))


def _sections(window, clock, real=measuring.Sections):
    return real("cpu", window=window, clock=lambda: next(clock))


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
