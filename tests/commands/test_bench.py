"""navrl bench: its table, its advice, and what it refuses."""

import json
import re
import subprocess

import pytest
import torch

from navrl.commands import bench as measuring
from navrl.commands import bench_growth, bench_ranks
from navrl.commands.bench import (
    Advice,
    Size,
    Timing,
    Training,
    advice,
    main,
    measure,
    timings,
)
from navrl.config.checks import ConfigError
from navrl.config.compose import compose
from navrl.run.timers import Spread

TINY = ("num_envs=8", "rollout_steps=4", "compile=off", "agent.network.hidden_sizes=[8]")


@pytest.fixture(autouse=True)
def _generator_as_before():
    with torch.random.fork_rng(devices=[]):
        yield


def test_all_of_it_is_printed_and_written(tmp_path, capsys):
    file = tmp_path / "bench.json"
    flags = ["--repeats", "1", "--sizes", "16,8", "--memory-gb", "64", "--json", str(file)]
    assert main([*TINY, *flags]) == 0
    printed, errors = capsys.readouterr()
    assert errors == ""  # no progress where nobody watches
    rows = {line[:22].strip(): line[22:].split() for line in printed.splitlines()}
    assert {"collect", "update", "gradient steps", "iteration", "8", "16"} <= rows.keys()
    assert "is the fastest of these that fits into 64.0 GB" in printed
    found = json.loads(file.read_text())
    assert [size["num_envs"] for size in found["num_envs"]] == [8, 16]
    for size in found["num_envs"]:
        halves = 1.0 / size["collect_fps"] + 1.0 / size["update_fps"]
        assert 1.0 / size["fps"] == pytest.approx(halves)
        assert size["peak_mb"] > 100.0
    ratio = found["sections"]["iteration"]
    assert float(rows["iteration"][-2]) == pytest.approx(
        ratio["p50_ms"] / ratio["floor_ms"], abs=0.006
    )


SIZES = [Size(100, 1.0, 1.0, 50.0, 300.0), Size(200, 1.0, 1.0, 70.0, 400.0)]


@pytest.mark.parametrize(
    ("sizes", "budget_mb", "expected"),
    [
        (SIZES, 1000.0, (200, 800)),  # 200 MB, and one for every env
        (SIZES, 350.0, (100, 150)),
        (SIZES, 100.0, (None, 0)),
        (SIZES[:1], 1000.0, (100, None)),
        ([SIZES[0], SIZES[1]._replace(peak_mb=300.0)], 1000.0, (200, None)),
        ([], 1000.0, (None, None)),
    ],
)
def test_advice_is_by_what_fits(sizes, budget_mb, expected):
    assert advice(sizes, budget_mb) == Advice(budget_mb, *expected)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--repeats", "0"], "--repeats = 0; expected a whole number, 1 or more"),
        (["--sizes", "8,x"], "8,x; expected whole numbers of 1 or more"),
        (["--sizes", "0"], "expected whole numbers of 1 or more"),
        (["--json", "nowhere/at/all.json"], "expected a file in an existing folder"),
        ([*TINY, "agent.num_minibatches=5"], "change agent.num_minibatches"),
    ],
)
def test_wrong_input_gets_one_sentence(capsys, arguments, complaint):
    assert main(arguments) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("navrl: error: ")
    assert complaint in errors
    assert errors.count("\n") == 1


# ---- sections and floors

MINIBATCHES = ("agent.num_minibatches=2", "agent.num_epochs=1")
TEAM = ("env=alice_and_bob", "num_envs=8", "rollout_steps=4", "compile=off")


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
    learning, rows = measuring.Learning(training.agent, training.rollout), []
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


def test_the_floor_of_skills_makes_the_same_gradient_steps(trained):
    epochs = {"coordinator": 3, "actor": 2, "discriminator": 4}
    options = [f"agent.{part}.num_epochs={number}" for part, number in epochs.items()]
    training = trained(*TEAM, "agent=hmasd", *options)
    learning = measuring.SkillLearning(training.agent, training.rollout)
    learning.steps_bare()
    counts = [{int(each["step"]) for each in adam.state.values()} for adam in learning._adams]
    assert counts == [{2}, {2}, {4}, {4}, {3}]  # actor, critic, two discriminators, coordinator
    learned = sum(parameter.numel() for parameter in training.agent.parameters)
    groups = [group for adam in learning._adams for group in adam.param_groups]
    assert sum(p.numel() for group in groups for p in group["params"]) == learned


@pytest.mark.parametrize("agent", ["mappo", "hmasd"])
def test_agents_of_teams_are_taken_apart(trained, agent):
    found = measure(trained(*TEAM, f"agent={agent}"), 1, lambda: None)
    assert all(found[name].floor_ms is not None for name in ("collect", "update", "iteration"))


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


def test_growth_is_that_of_warm_iterations():
    held = {iteration: 500.0 + 0.25 * iteration for iteration in range(30, 101)}
    resident = {1: 100.0, 29: 900.0, **held}
    assert bench_growth.mb_per_100_iterations(resident) == pytest.approx(25.0)


@pytest.mark.commands
def test_the_growth_of_a_whole_training(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*TINY, "env.sim.tick_s=0.25", "agent.num_minibatches=2", "--growth", "60"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "combat with ppo: 60 iterations of 8 envs x 4 steps"
    pattern = r"resident memory: ([\d,.]+) MB after iteration 30, ([\d,.]+) MB at the end: ([+-][\d.]+) MB"
    before, after, growth = re.match(pattern, second).groups()
    assert 100.0 < float(before.replace(",", "")) <= float(after.replace(",", "")) + 1.0
    assert -10.0 < float(growth) < 100.0
    assert not list(tmp_path.iterdir())


def test_growth_needs_iterations_after_the_first(capsys):
    assert main([*TINY, "--growth", "59"]) == 2
    assert "--growth = 59; expected a whole number, 60 or more" in capsys.readouterr().err


@pytest.mark.commands
def test_whole_trainings_by_ranks_and_apart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = [*TINY, "num_envs=64", "agent.num_minibatches=2", "env.sim.tick_s=0.25"]
    assert main([*words, "--ranks", "1,2", "--apart", "--repeats", "1"]) == 0
    first, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("combat with ppo: 64 envs in all x 4 steps")
    found = {row[:8].strip(): row[8:].split() for row in rows}
    assert set(found) == {"1", "2", "2 apart"}
    for name, (fps, ratio, iteration_ms, *_) in found.items():
        trainings, envs = (2, 32) if name == "2 apart" else (1, 64)
        frames = trainings * envs * 4 / (1e-3 * float(iteration_ms))
        assert float(fps.replace(",", "")) == pytest.approx(frames, rel=0.3)
        assert float(ratio) > 0.0
    assert not list(tmp_path.iterdir())  # runs are in a temporary folder


def test_trainings_beside_one_that_fails_are_ended(monkeypatch):
    scripts = iter(["echo 'navrl: error: no such world' >&2; exit 2", "exec sleep 60"])
    started = []

    def start(*_):
        words = ["sh", "-c", next(scripts)]
        started.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
        return started[-1]

    monkeypatch.setattr(bench_ranks, "_started", start)
    with pytest.raises(ConfigError, match=r"^no such world$"):
        bench_ranks._turn(2, True, 64, 8, [])
    assert [process.poll() is not None for process in started] == [True, True]
