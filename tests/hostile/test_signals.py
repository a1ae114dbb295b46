"""A signal in every phase of a command: one sentence, 128 + n, a status that is true, nothing lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

import fault_orphans
import navrl.evaluate
import navrl.train
from navrl.agents.core.guards import UpdateGuard
from navrl.agents.ppo.agent import PPO
from navrl.loggers.composite import Loggers
from navrl.loggers.jsonl import read_metrics
from navrl.run import policies
from navrl.storage.checkpoint import load
from navrl.storage.find import find
from tests.command_line import process

pytestmark = pytest.mark.hostile
ROOT = Path(__file__).resolve().parents[2]
ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
TINY = (
    *("experiment=debug", "logger=none", "console=lines", "eval_opponents=[straight]"),
    *("opponent=crank", "num_envs=8", "eval_episodes=2", "total_frames=256", "env.sim.tick_s=0.25"),
    *("hydra.run.dir=outputs/run", "resume=auto"),
)
SKIPS_FROM = "SKIPS_FROM"
PHASES = {
    "build": (navrl.train, "build_parts"),
    "first iteration": (PPO, "update"),
    "logging": (Loggers, "log"),
    "final evaluation": (navrl.train, "final_evaluation"),
    "closing": (Loggers, "close"),
}


def train_signalled():
    """The train command; SIGNAL comes in the COUNT-th call of PHASE, which would take a minute."""
    owner, name = PHASES[os.environ["PHASE"]]
    function, calls = getattr(owner, name), []

    def signalled(*arguments, **options):
        calls.append(name)
        if len(calls) == int(os.environ["COUNT"]):
            os.kill(os.getpid(), int(os.environ["SIGNAL"]))
            # In mid-loop it is only noted.
            time.sleep(0 if name == "log" else 60)
        return function(*arguments, **options)

    with mock.patch.object(owner, name, signalled):
        train_skipping()


def train_skipping():
    """The train command; gradients are not finite from iteration SKIPS_FROM on."""
    check, calls = UpdateGuard.check, []

    def skipping(self, rollout, *, skipped_steps, **found):
        calls.append(rollout)
        skips = len(calls) >= int(os.environ.get(SKIPS_FROM, "99"))
        check(self, rollout, skipped_steps=float(skips), **found)

    with mock.patch.object(UpdateGuard, "check", skipping):
        navrl.train.main()


def signalled(folder, phase, number, *words, count=1, main=train_signalled, **environment):
    """A training in that folder, and the status that it leaves."""
    environment |= {"PHASE": phase, "SIGNAL": str(int(number)), "COUNT": str(count)}
    done = process(main, *TINY, *words, folder=folder, environment=environment)
    assert "Traceback" not in done.stderr
    status = folder / "outputs/run/status.json"
    return done, json.loads(status.read_text()) if status.exists() else {}


def last_sentence(done):
    return done.stderr.splitlines()[-1]


def iterations(folder):
    return [row["iteration"] for row in read_metrics(folder / "outputs/run/metrics.jsonl")]


@pytest.mark.parametrize("number", ENDING)
def test_while_it_builds_nothing_is_left(tmp_path, number):
    done, _ = signalled(tmp_path, "build", number)
    assert done.returncode == 128 + number
    assert done.stderr == "navrl: nothing was trained, nothing saved\n"
    assert list(tmp_path.iterdir()) == []


def test_in_the_first_iteration_it_ends_at_once_and_the_run_goes_on_later(tmp_path):
    done, status = signalled(tmp_path, "first iteration", signal.SIGHUP)
    assert done.returncode == 128 + signal.SIGHUP
    assert last_sentence(done) == "navrl: stopped at once; nothing was saved"
    assert (status["state"], status["reason"]) == ("interrupted", "SIGHUP")
    done, status = signalled(tmp_path, "logging", signal.SIGHUP, count=2)
    assert done.returncode == 128 + signal.SIGHUP
    done, status = signalled(tmp_path, "first iteration", signal.SIGTERM)
    assert last_sentence(done) == "navrl: stopped at once; the last save is of frame 128"
    assert (status["state"], status["reason"]) == ("interrupted", "SIGTERM")
    assert iterations(tmp_path) == [1, 2]


@pytest.mark.parametrize("number", ENDING)
def test_in_the_final_evaluation_everything_is_saved_and_the_run_is_not_finished(tmp_path, number):
    done, status = signalled(tmp_path, "final evaluation", number)
    assert done.returncode == 128 + number
    assert "training was complete. To measure it:" in done.stdout
    assert status["state"] == "interrupted"
    assert load(find("run", tmp_path / "outputs"))["iteration"] == 4


def test_while_it_closes_it_is_finished_and_says_that_it_was_stopped(tmp_path):
    done, status = signalled(tmp_path, "closing", signal.SIGTERM)
    assert done.returncode == 128 + signal.SIGTERM
    assert last_sentence(done) == "navrl: stopped by SIGTERM before it was done"
    assert status["state"] == "finished"


def test_a_request_saves_after_the_iteration_and_ends_nothing(tmp_path):
    words = ("checkpoint.save_every=99", "checkpoint.keep_last=9")
    done, status = signalled(tmp_path, "logging", signal.SIGUSR1, *words, count=2)
    assert (done.returncode, status["state"]) == (0, "finished"), done.stderr
    names = sorted(path.name for path in tmp_path.glob("outputs/run/checkpoints/step_*"))
    assert names == ["step_000000000128.ckpt", "step_000000000256.ckpt"]


@pytest.mark.parametrize("number", [0, signal.SIGTERM])
def test_an_end_in_iterations_that_are_not_finite_keeps_the_last_good_one(tmp_path, number):
    skipping = {SKIPS_FROM: "3", "main": train_signalled if number else train_skipping}
    words = ("checkpoint.save_every=1", "total_frames=256")
    done, status = signalled(tmp_path, "logging", number, *words, count=3, **skipping)
    assert done.returncode == (128 + number if number else 1)
    text = f"the last {'iteration' if number else '2 iterations'}, not saved for that reason"
    assert text in (done.stdout if number else last_sentence(done))
    assert status["state"] == "failed"
    assert f"gradients were not finite in {text}" in status["reason"]
    assert load(find("run", tmp_path / "outputs"))["iteration"] == 2


@pytest.mark.parametrize("number", ENDING)
def test_other_commands_end_at_once_with_one_sentence(tmp_path, number):
    environment = {"SIGNAL": str(int(number))}
    words = ("checkpoint=scripted:crank", "num_episodes=2")
    done = process(evaluate_signalled, *words, folder=tmp_path, environment=environment)
    name = "Ctrl-C" if number == signal.SIGINT else number.name
    assert done.returncode == 128 + number
    assert done.stderr == f"navrl: stopped by {name} before it was done\n"


def evaluate_signalled():
    """The evaluate command; SIGNAL comes when the first episode begins."""

    def signalled(*arguments, **options):
        os.kill(os.getpid(), int(os.environ["SIGNAL"]))
        time.sleep(60)

    with mock.patch.object(policies, "play", signalled):
        navrl.evaluate.main()


# Takes the place of torch: an import that lasts.
SLOW = "import pathlib, time\npathlib.Path('importing').touch()\ntime.sleep(60)\n"
COMMANDS = {
    "train": ["-m", "navrl.train"],
    "evaluate": ["-m", "navrl.evaluate"],
    "navrl": ["-c", "from navrl.cli import main; main()", "train"],
}


@pytest.mark.parametrize(
    ("command", "number"), [*zip(COMMANDS, ENDING, strict=True), ("train", signal.SIGINT)]
)
def test_while_it_imports_it_is_one_sentence(tmp_path, command, number):
    (tmp_path / "torch.py").write_text(SLOW)
    with subprocess.Popen(
        [sys.executable, *COMMANDS[command]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        stderr=subprocess.PIPE,
        text=True,
    ) as importing:
        while not (tmp_path / "importing").exists():
            assert importing.poll() is None
            time.sleep(0.01)
        importing.send_signal(number)
        _, error = importing.communicate(timeout=10)
    assert importing.returncode == 128 + number
    name = "Ctrl-C" if number == signal.SIGINT else number.name
    assert error == f"navrl: stopped by {name}\n"


def test_at_the_exit_of_the_interpreter_it_is_one_sentence(tmp_path):
    code = (
        "import atexit, os, sys, time; from navrl.cli import main; sys.argv = ['navrl', '--version'];"
        "atexit.register(lambda: os.kill(os.getpid(), 15) or time.sleep(60)); sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 143
    assert done.stderr == "navrl: stopped by SIGTERM\n"
    assert done.stdout.startswith("navrl ")


@pytest.mark.parametrize("kill", [fault_orphans.kill_supervisors, fault_orphans.kill_trainings])
def test_nothing_outlives_a_training_that_was_killed(tmp_path, kill):
    found = kill(1, tmp_path / "runs", seed=0)
    assert (found.left, found.overlaps) == (0, 0)
    assert found.trainings + found.workers > 0
