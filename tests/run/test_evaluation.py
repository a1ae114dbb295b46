"""eval_async: the same results beside training as within it, and training that does not notice."""

import json
import os
import signal
import time
from collections import deque
from multiprocessing.connection import Pipe
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from omegaconf import OmegaConf

import navrl.run.evaluation
import navrl.train
from navrl.loggers.jsonl import JsonlLogger
from navrl.run.evaluation import (
    _MOST_REQUESTS,
    AsyncEvaluations,
    EvaluationFailed,
    _Request,
)
from navrl.run.signals import Interrupt
from navrl.storage.checkpoint import load
from navrl.storage.compare import differences
from tests.command_line import command, process
from tests.halting import STOP_AFTER, train_and_halt, untimed_rows

GAME = ("env=alice_and_bob", "env.sim.size=3", "env.sim.horizon=20", "compile=off")
RUN = (
    *(*GAME, "agent=hmasd", "num_envs=4", "rollout_steps=30", "total_frames=480", "seed=3"),
    *(f"agent.{part}.num_epochs=2" for part in ("coordinator", "actor", "discriminator")),
    *("eval_episodes=4", "logger=none", "console=lines", "checkpoint.save_every=2"),
)
ASIDE = ("eval_every=1", "eval_async=true")


def finished(run):
    """The last checkpoint without what its options are, and the rows without times."""
    state = load(run / "checkpoints/step_000000000480.ckpt")
    return {k: state[k] for k in ("agent", "env", "collector", "rng", "iteration")}, untimed_rows(
        run
    )


def evaluations(rows):
    """Return the evaluations in the order of frames."""
    kept = ("iteration", "frames")
    found = [row for row in rows if "eval/success" in row]
    rows = [{k: v for k, v in row.items() if k in kept or k.startswith("eval/")} for row in found]
    return sorted(rows, key=lambda row: row["frames"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same training without evaluations, with them, and with them beside it."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for name, options in {"none": (), "waiting": ASIDE[:1], "aside": ASIDE}.items():
            assert command(navrl.train.main, *RUN, *options, f"hydra.run.dir={name}") == 0
    return folder


@pytest.mark.commands
def test_training_is_the_same_to_the_bit_with_and_without(runs):
    states = {name: finished(runs / name)[0] for name in ("none", "waiting", "aside")}
    assert differences(states["aside"], states["none"]) == []
    assert differences(states["waiting"], states["none"]) == []


@pytest.mark.commands
def test_results_are_those_of_waiting_and_belong_to_their_version(runs):
    (_, aside), (_, waiting) = (finished(runs / name) for name in ("aside", "waiting"))
    assert evaluations(aside) == evaluations(waiting)
    found = [
        (row["iteration"], row["frames"], row["eval/policy_version"]) for row in evaluations(aside)
    ]
    assert found == [(i, 120.0 * i, i) for i in (1, 2, 3, 4)]
    trained = [row for row in aside if "sync/policy_version" in row]
    assert [row["iteration"] for row in trained] == [1, 2, 3, 4]
    assert not any("eval/success" in row for row in trained), "no iteration waited"


@pytest.mark.commands
def test_a_stopped_run_waits_for_nothing_and_evaluates_when_it_goes_on(runs, tmp_path):
    options = (*RUN, *ASIDE, "hydra.run.dir=run", "resume=auto")
    for stop_after, code in ((2, 128 + signal.SIGTERM), (-1, 0)):
        environment = {STOP_AFTER: str(stop_after)}
        done = process(train_and_halt, *options, folder=tmp_path, environment=environment)
        assert done.returncode == code, done.stderr
        assert ("waiting for" in done.stdout) == (code == 0)
    half = load(tmp_path / "run/checkpoints/step_000000000240.ckpt")
    assert [each["frames"] for each in half["evaluations"]][-1:] == [240]
    state, rows = finished(tmp_path / "run")
    expected, expected_rows = finished(runs / "aside")
    assert differences(state, expected) == []
    assert evaluations(rows) == evaluations(expected_rows)


def agent_of(weights):
    """Something with a policy."""
    return SimpleNamespace(policy=SimpleNamespace(state_dict=lambda: weights, version=7))


@pytest.mark.commands
def test_what_goes_wrong_beside_is_raised_within(compose_cfg, capfd):
    notes = []
    with AsyncEvaluations(compose_cfg(*GAME, "eval_every=1", "eval_async=true")) as aside:
        foreign, interrupt = agent_of({"foreign": torch.ones(2)}), Interrupt(lambda: None)
        assert aside.evaluate(foreign, interrupt, iteration=1, frames=9) == {}
        with pytest.raises(EvaluationFailed, match="an evaluation failed: CheckpointMismatch: "):
            list(aside.rest(notes.append))
        with pytest.raises(EvaluationFailed, match="ended with exit code 0; expected it to live"):
            list(aside.rest(notes.append))
        process = aside._process
    assert notes == ["waiting for 1 evaluation of an earlier policy"] * 2
    assert process.returncode == 0
    assert "Traceback" in capfd.readouterr().err


def test_far_behind_the_loop_waits_after_all(monkeypatch):
    """For as many results as are too many; the process is this one, which answers all at once."""
    ours, theirs = Pipe()
    aside = AsyncEvaluations.__new__(AsyncEvaluations)  # without its process
    aside._pipe, aside._process, aside._ready = ours, None, False
    aside.cfg, aside.scores = OmegaConf.create({"env": {}, "eval_every": 1}), []
    aside._requests = deque(_Request(i, 10 * i, i, {}) for i in range(1, _MOST_REQUESTS + 3))
    waited = []

    def poll(timeout_s):
        waited.append(timeout_s is None)
        if timeout_s is None:
            theirs.send({"eval/a": 1.0})
        return timeout_s is None

    monkeypatch.setattr(ours, "poll", poll)
    assert [result.iteration for result in aside.results()] == [1, 2]
    assert waited == [True, True, False]
    assert len(aside.state_dict()) == _MOST_REQUESTS


@pytest.mark.commands
def test_the_process_ends_with_the_run(compose_cfg):
    with AsyncEvaluations(compose_cfg(*GAME, "eval_every=1", "eval_async=true")) as aside:
        assert aside._process.poll() is None
    assert aside._process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("options", [["eval_async=true"], ["eval_async=maybe", "eval_every=1"]])
def test_options_that_make_no_sense_are_one_sentence(tmp_path, monkeypatch, capsys, options):
    monkeypatch.chdir(tmp_path)
    assert command(navrl.train.main, *RUN, *options) == 2
    assert "change eval_async or eval_every" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.commands
def test_an_evaluation_that_a_signal_cut_short_is_made_when_the_run_goes_on(runs, tmp_path):
    options = (*RUN, *ASIDE[:1], "hydra.run.dir=run", "resume=auto")
    done = process(train_and_halt_while_evaluating, *options, folder=tmp_path)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    half = load(tmp_path / "run/checkpoints/step_000000000240.ckpt")
    assert [each["frames"] for each in half["evaluations"]] == [240]
    again = process(navrl.train.main, *options, folder=tmp_path)
    assert again.returncode == 0, again.stderr
    state, rows = finished(tmp_path / "run")
    expected, expected_rows = finished(runs / "waiting")
    assert differences(state, expected) == []
    assert evaluations(rows) == evaluations(expected_rows)


def train_and_halt_while_evaluating():
    """The train command; SIGTERM comes in the second evaluation."""
    play, played = navrl.run.evaluation.play, []

    def stopping(*arguments, **options):
        played.append(arguments)
        if len(played) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        return play(*arguments, **options)

    with mock.patch.object(navrl.run.evaluation, "play", stopping):
        navrl.train.main()


@pytest.mark.parametrize("goes_on", [True, False])
def test_late_rows_are_cut_with_the_rows_after_which_they_came(tmp_path, goes_on):
    logger = JsonlLogger(directory=tmp_path)
    logger.log({"a": 1.0}, iteration=1, frames=10)
    logger.late({"eval/b": 1.0}, 1, 10)  # known when iteration 2 was saved
    logger.log({"a": 2.0}, iteration=2, frames=20)
    logger.late({"eval/b": 2.0}, 2, 20)  # part of the state of iteration 2: to be made again
    if goes_on:  # else the run was complete, and is given more frames now
        logger.log({"a": 3.0}, iteration=3, frames=30)
    logger.truncate_after(20)
    logger.close()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"iteration": 1, "frames": 10, "a": 1.0},
        {"iteration": 1, "frames": 10, "eval/b": 1.0},
        {"iteration": 2, "frames": 20, "a": 2.0},
    ]
