"""collector=ray: processes with ranges of envs, the learner's weights before every rollout, deaths."""

import os
import signal
import subprocess
import sys
from functools import partial

import pytest
import torch

from navrl.collectors import RayCollector
from navrl.collectors import ray as collector_module
from navrl.collectors.ray import WorkerDied
from navrl.config.checks import ConfigError
from navrl.config.compose import compose
from navrl.loggers.jsonl import read_metrics
from navrl.run.build import build_agent, build_collector, build_env

ENVS, STEPS = 5, 12
WORDS = (
    *("env=gym", "env.id=CartPole-v1", "env.vectorization=sync", "experiment=classic"),
    *(f"num_envs={ENVS}", f"rollout_steps={STEPS}", "agent.num_minibatches=1", "seed=3"),
    *("collector=ray", "logger=none", "agent.network.hidden_sizes=[8]", "compile=off"),
)


def parts_of(*words, iterations=3):
    """Env, agent and collector of a configuration."""
    cfg = compose("train", [*WORDS, *words])
    env = build_env(cfg, num_envs=cfg.num_envs, seed=cfg.seed)
    agent = build_agent(cfg, env, num_iterations=iterations)
    frames = iterations * cfg.num_envs * cfg.rollout_steps
    return env, agent, build_collector(cfg, env, agent, total_frames=frames, seed=cfg.seed)


@pytest.fixture(scope="module", autouse=True)
def _no_token():
    """Ray keeps no token in the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        yield


@pytest.fixture
def cluster():
    """A Ray cluster on this machine, which the collectors of a test find running."""
    ray = pytest.importorskip("ray")
    ray.init(address="local", num_cpus=2, log_to_driver=False, logging_level="error")
    yield ray
    ray.shutdown()


@pytest.mark.commands
@pytest.mark.usefixtures("cluster")
def test_frames_are_those_of_the_same_envs_in_one_process_under_the_newest_weights():
    torch.manual_seed(0)
    env, agent, collector = parts_of()
    whole = build_env(compose("train", WORDS), num_envs=ENVS, seed=3)
    frame = whole.reset()
    versions = []
    for rollout in collector:
        assert rollout.shape == (ENVS, STEPS)
        assert rollout.names == [None, "time"]
        versions.append(rollout.get_non_tensor("policy_version"))
        for step in range(STEPS):  # the same actions in one batch of all envs
            seen = rollout[:, step]
            assert torch.equal(frame["observation", "features"], seen["observation", "features"])
            moved, frame = whole.step_and_maybe_reset(frame.set("action", seen["action"]))
            assert torch.equal(moved["next", "reward"], seen["next", "reward"])
            assert torch.equal(moved["next", "done"], seen["next", "done"])
        assert agent.update(rollout)["sync/replay_error"] < 1e-5
    with pytest.raises(ConfigError, match="expected at most the 2 CPUs of the cluster in all"):
        parts_of("collector.workers=3")
    assert versions == [0, 1, 2]
    assert rollout["action"].unique().numel() == 2, "actions are drawn"
    collector.shutdown()
    assert env.is_closed


@pytest.mark.commands
def test_a_process_that_dies_is_replaced_or_ends_the_run(cluster):
    _, agent, collector = parts_of()
    rollouts = iter(collector)
    agent.update(next(rollouts))
    cluster.kill(collector._workers[1])
    with pytest.warns(UserWarning, match=r"envs 2 to 4 died .*; another one begins new episodes"):
        rollout = next(rollouts)
    assert rollout.get_non_tensor("policy_version") == 1
    lengths = rollout["episode"][:, 0, 1]
    assert lengths[2:].tolist() == [0.0] * 3, "new episodes"
    assert agent.update(rollout)["sync/replay_error"] < 1e-5
    assert collector.metrics() == {"sync/replaced_workers": 1.0}

    collector._replace = False
    cluster.kill(collector._workers[0])
    with pytest.raises(
        WorkerDied,
        match=r"the process of collector=ray with envs 0 to 1 died .* go on with resume=",
    ):
        next(rollouts)
    collector.shutdown()


@pytest.mark.commands
def test_a_run_with_a_cluster_of_its_own_saves_on_a_signal_and_goes_on(tmp_path):
    train = [sys.executable, "-m", "navrl.train", *WORDS, "console=lines", "eval_episodes=2"]
    run = subprocess.Popen(
        [*train, "total_frames=60000000", "hydra.run.dir=run"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (line := run.stdout.readline()).startswith("iter 2/"):
        assert line, "the run ended"
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does, Ray's processes included
    rest, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "saved. To go on:" in rest
    done = len(list(read_metrics(tmp_path / "run" / "metrics.jsonl")))
    more = (done + 2) * ENVS * STEPS
    again = [*train[:3], "resume=run", "collector=ray", f"total_frames={more}", "console=none"]
    assert subprocess.run(again, cwd=tmp_path, check=False, timeout=120).returncode == 0
    rows = list(read_metrics(tmp_path / "run" / "metrics.jsonl"))
    assert [row["iteration"] for row in rows] == [*range(1, done + 3)]
    assert all(row["sync/replay_error"] < 1e-5 for row in rows)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["collector.workers=6"], r"collector\.workers = 6; expected a whole number from 1 to 5"),
        (["collector.on_death=restart"], "did you mean|expected one of replace, end"),
        (["collector.cpus_per_worker=-1"], r"collector\.cpus_per_worker = -1"),
    ],
)
def test_wrong_options_are_named(words, sentence):
    with pytest.raises(ConfigError, match=sentence):
        parts_of(*words)


def test_batched_worlds_are_collected_in_one_process(make_env, make_agent, make_collector):
    env = make_env()
    options = {"workers": 2, "cpus_per_worker": 1, "address": None, "on_death": "end"}
    kind = partial(RayCollector, **options, make_parts=lambda *_: None, seed=0)
    with pytest.raises(ConfigError, match="collector=sync for this one"):
        make_collector(env, make_agent(env).policy, kind=kind)


def test_a_missing_package_and_a_missing_cluster_are_one_sentence(monkeypatch):
    monkeypatch.setattr(collector_module, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'navrl\[ray\]'"):
        parts_of()
    monkeypatch.undo()
    with pytest.raises(ConfigError, match=r"collector\.address = nowhere"):
        parts_of("collector.address=nowhere")
