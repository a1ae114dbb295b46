"""navrl.train, evaluate, make and Run: the commands as functions."""

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from unittest import mock

import numpy as np
import pytest
import torch
from hydra.core.hydra_config import HydraConfig
from torchrl.envs import EnvBase
from torchrl.envs.utils import exploration_type

import navrl
from navrl.agents.ppo.agent import PPO
from navrl.api.training import words_of
from navrl.config import plugins, signals
from navrl.config.checks import ConfigError
from navrl.loggers.jsonl import JsonlLogger
from tests.command_line import process

pytestmark = pytest.mark.commands

SHORT = {
    "experiment": "debug",
    "eval_opponents": ["pursuit"],
    "logger": "none",
    "console": "none",
    "env": "combat",
    "env.sim": {"time_limit_s": 5},
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_training_is_a_function_and_goes_on():
    done = navrl.train(
        SHORT, seed=4, total_frames=256, agent={"optimizer": {"learning_rate": 1e-4}}
    )
    assert done.path == done.run.path
    assert done.run.status["state"] == "finished"
    assert done.run.config["seed"] == 4
    assert done.run.metrics["frames"].tolist() == [128.0, 256.0]
    assert done.run.metrics["policy/learning_rate"].dtype == np.float64
    assert done.score == done.metrics["eval/pursuit/win"]
    assert [each.frames for each in done.run.checkpoints] == [256]
    again = navrl.train(resume=done.path, total_frames=384)
    assert again.path == done.path
    assert again.run.metrics["frames"].tolist() == [128.0, 256.0, 384.0]
    with pytest.raises(ConfigError, match="the run is complete at 384 frames"):
        navrl.train(resume=done.path, total_frames=384)
    rows = navrl.evaluate(done.path, opponent="crank", num_episodes=8)
    assert {row.metric for row in rows} >= {"return", "win", "loss"}
    assert all(row.episodes == 8 for row in rows)
    policy = navrl.load(done.path)
    assert policy.act({"ego": np.zeros(policy.observation["ego"])}).shape == (
        2,
    )  # manoeuvre, trigger


def test_resume_auto_of_a_finished_run_returns_its_result():
    first = navrl.train(SHORT, total_frames=128, resume="auto")
    again = navrl.train(SHORT, total_frames=128, resume="auto")
    assert (again.path, again.score) == (first.path, first.score)
    assert again.metrics == first.metrics


def test_a_wrong_option_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'total_frames'"):
        navrl.train(SHORT, total_frame=3)
    with pytest.raises(ConfigError, match="num_envs = 0"):
        navrl.train(SHORT, num_envs=0)
    with pytest.raises(ConfigError, match="restarts = 3; expected 0 from Python"):
        navrl.train(SHORT, restarts=3, resume="auto")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


OTHER = {
    "env": "coverage",
    "plugins": ["mylab"],
    "seed": 9,
    "compile": "off",
    "eval_episodes": 4,
    "experiment": "debug",
    "logger": "none",
    "console": "none",
    "total_frames": 64,
}


def _state_of_process():
    return {
        "hydra": HydraConfig.instance().cfg,
        "plugins": plugins.allowed(),
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
        "exploration": exploration_type(),
        "signals": [signal.getsignal(number) for number in signals.ALL],
        "warnings": [warnings.formatwarning, [*warnings.filters]],
        "environment": {**os.environ},
        "handlers": [*logging.getLogger().handlers],
        "folder": os.getcwd(),
    }


def _numbers(run):
    """Return the metrics that depend on nothing but the options."""
    return {
        name.replace("/", " "): column
        for name, column in run.metrics.items()
        if name.partition("/")[0] not in ("time", "memory")
    }


def _train_short():
    return navrl.train(SHORT, seed=4, total_frames=256, compile="off")


def _train_alone():
    np.savez("alone.npz", **_numbers(_train_short().run))


def test_a_second_training_inherits_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which the folder of mylab is added
    (tmp_path / "mylab").mkdir()
    (tmp_path / "mylab" / "__init__.py").touch()
    assert process(_train_alone, folder=tmp_path).returncode == 0
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        before = _state_of_process()
        other = navrl.train(OTHER)
        navrl.evaluate(other.path, plugins=["mylab"], num_episodes=2)
        navrl.load(other.path, "plugins=[mylab]")
        navrl.make("coverage", plugins=["mylab"])
        with pytest.raises(ConfigError, match="num_envs = 0"):
            navrl.train(OTHER, num_envs=0)
        assert _state_of_process() == before
    finally:
        torch.set_num_threads(threads)
    second = _train_short().run
    np.testing.assert_equal(_numbers(second), dict(np.load("alone.npz")))
    assert second.config["plugins"] == []


@pytest.mark.parametrize("collector", ["sync", "pipelined"])
def test_no_world_and_no_thread_outlives_a_training_or_an_evaluation(monkeypatch, collector):
    gym = pytest.importorskip("navrl.envs.external.gym")
    closed, close = [], gym.GymEnv.close

    def closing(self, **options):
        closed.append(self.batch_size[0])
        close(self, **options)

    monkeypatch.setattr(gym.GymEnv, "close", closing)
    options = {**OTHER, "plugins": [], "env": "gym", "env.id": "CartPole-v1", "num_envs": 16}
    options["collector"] = collector
    before = threading.active_count()
    done = navrl.train(options)
    assert closed == [16, 4]  # of training; of the final evaluation
    navrl.evaluate(done.path, num_episodes=3)
    assert closed == [16, 4, 3]
    monkeypatch.setattr(PPO, "update", mock.Mock(side_effect=OSError("broken")))
    with pytest.raises(OSError, match="broken"):
        navrl.train(options)
    assert closed == [16, 4, 3, 16]
    assert threading.active_count() == before


def test_an_env_by_its_name():
    env = navrl.make(
        "combat", {"env": {"team_size": 2}}, "observation=entities", num_envs=3, seed=1
    )
    assert isinstance(env, EnvBase)
    assert env.rollout(2)["agents", "action"].shape[:3] == (3, 2, 2)


def test_an_env_of_a_negative_seed_is_refused():
    with pytest.raises(ConfigError, match="seed = -1; expected a whole number"):
        navrl.make("combat", seed=-1)


def test_options_become_words_that_mean_the_same():
    words = words_of(
        "seed=1", {"agent": {"network": {"hidden_sizes": [8, 8]}}, "a.b": None}, {"c": "null"}
    )
    assert words == ["seed=1", "agent.network.hidden_sizes=[8,8]", "a.b=null", "c='null'"]
    with pytest.raises(ConfigError, match="options = 3; expected words"):
        words_of(3)


def test_the_package_imports_in_an_instant_and_ctrl_c_saves_and_returns():
    """As in a notebook: the interpreter goes on afterwards."""
    program = f"""
import os, signal, sys, time
start = time.perf_counter()
import navrl
print("torch" in sys.modules, time.perf_counter() - start < 2.0)  # 0.05 s on a quiet machine
from navrl.loggers.jsonl import JsonlLogger
log = JsonlLogger.log
def interrupted(self, metrics, *, iteration, frames):
    log(self, metrics, iteration=iteration, frames=frames)
    if iteration == 2:
        os.kill(os.getpid(), signal.SIGINT)
JsonlLogger.log = interrupted
done = navrl.train({SHORT!r}, total_frames=10**6)
print(done.run.status["state"], [each.frames for each in done.run.checkpoints], done.score)
"""
    found = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert found.stdout.splitlines() == ["False True", "interrupted [256] nan"], found
    assert found.returncode == 0


def test_another_signal_saves_and_ends_the_process(monkeypatch):
    log = JsonlLogger.log

    def signalled(self, metrics, *, iteration, frames):
        log(self, metrics, iteration=iteration, frames=frames)
        if iteration == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(JsonlLogger, "log", signalled)
    with pytest.raises(SystemExit) as end:
        navrl.train(SHORT, {"hydra.run.dir": "outputs/run"}, total_frames=10**6)
    assert end.value.code == 128 + signal.SIGTERM
    run = navrl.Run("outputs/run")
    assert run.status["state"] == "interrupted"
    assert [each.frames for each in run.checkpoints] == [256]


def test_the_example_of_the_docs_runs(root, capsys):
    text = (root / "docs/python.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(block, "docs/python.md", "exec"), {})
    assert capsys.readouterr().out.count("win") >= 2
