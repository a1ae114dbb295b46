"""navrl tune: a whole search with two workers that is stopped, goes on, and has a worker killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from navrl.commands.tune import main

SEARCH = ["tune", "env=combat", "agent=ppo", "experiment=debug", "study=small", "--workers", "2"]
_TIMEOUT_S = 120.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--trials", "0"], "--trials = 0; expected a whole number, 1 or more; change --trials"),
        (["num_envs=0"], "num_envs = 0; expected a whole number, 1 or more; change num_envs"),
        (["--pruner", "medain"], "did you mean 'median'?; change --pruner"),
        (["--cost", "--pruner", "median"], "--cost has two goals, and --pruner median needs one"),
        (["space=mapo"], "Unknown tune 'mapo'; available: hmasd, ippo, mappo"),
        (["study=../other"], "study = ../other; expected a name of letters, digits, - and _"),
        (["resume=latest"], "'resume=latest' is decided by navrl tune for each trial"),
        (["--pbt", "--trials", "9"], "--trials is of a search without --pbt; leave --trials out"),
        (["--population", "9"], "--population goes with --pbt only; leave --population out"),
        (["--pbt", "--population", "1"], "--population = 1; expected a whole number, 2 or more"),
        (["--pbt", "--population", "0"], "--population = 0; expected a whole number, 2 or more"),
        (["--pbt", "--interval", "0"], "--interval = 0; expected a whole number from 1 to"),
        (["--pbt", "checkpoint=none"], "checkpoint = none with --pbt, whose members continue from"),
        (["studdy=x"], "Unknown option 'studdy'; did you mean 'study'?"),
    ],
)
def test_anything_wrong_is_one_sentence(run, arguments, sentence):
    code, printed = run(main, *arguments)
    assert code == 2
    assert sentence in printed.err
    assert printed.err.count("\n") == 1
    assert not Path("multirun").exists()


def test_a_missing_optuna_names_what_installs_it(run, monkeypatch):
    monkeypatch.setattr("navrl.commands.tune.importlib.util.find_spec", lambda name: None)
    code, printed = run(main)
    assert (code, "pip install 'navrl[tune]'" in printed.err) == (2, True)


def begin(folder, trials):
    words = [*SEARCH, "--trials", str(trials)]
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "navrl.cli", *words]
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True)


def wait_for(pattern, folder):
    """Wait until a file of this name is there."""
    until = time.monotonic() + _TIMEOUT_S
    while not list(folder.glob(pattern)):
        assert time.monotonic() < until, f"no {pattern}"
        time.sleep(0.1)


def processes_in(folder):
    """The commands, by process, whose words name the folder, and the workers of its search."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            here = Path(f"/proc/{pid}/cwd").resolve() == folder
        except OSError:
            continue
        if here:
            found[int(pid)] = words
    return found


@pytest.mark.commands
def test_a_search_is_stopped_goes_on_and_loses_no_trial_of_a_killed_worker(tmp_path):
    search = begin(tmp_path, trials=2)
    wait_for("multirun/tune/small/trials/0000/seed-0/status.json", tmp_path)
    search.send_signal(signal.SIGINT)
    _, errors = search.communicate(timeout=_TIMEOUT_S)
    assert search.returncode == 130, errors
    again = "To go on:  navrl tune study=small env=combat agent=ppo experiment=debug --trials 2"
    assert again in errors
    assert processes_in(tmp_path) == {}

    search = begin(tmp_path, trials=2)
    workers = {}
    until = time.monotonic() + _TIMEOUT_S
    while len(workers) < 2 and time.monotonic() < until:
        found = processes_in(tmp_path)
        workers = {pid for pid, words in found.items() if any("--worker=" in w for w in words)}
    os.kill(min(workers), signal.SIGKILL)
    printed, errors = search.communicate(timeout=_TIMEOUT_S)
    assert search.returncode == 0, errors
    assert "was killed by SIGKILL; started again" in errors
    assert "small: 2 complete" in printed
    folder = tmp_path / "multirun/tune/small"
    states = [
        json.loads(path.read_text())["state"] for path in folder.glob("trials/*/*/status.json")
    ]
    assert states == ["finished", "finished"]
    assert (folder / "report.html").exists()
    assert processes_in(tmp_path) == {}


@pytest.mark.commands
def test_a_population_trains_and_shows_its_best_member(run, tmp_path):
    words = ["experiment=debug", "eval_opponents=[straight]", "eval_episodes=4", "seed=5"]
    size = ["num_envs=4", "rollout_steps=32", "total_frames=256", "env.objective=return"]
    size += ["study=small", "env.sim.time_limit_s=20", "env.sim.tick_s=0.25"]
    flags = ["--pbt", "--population", "3", "--interval", "128"]
    code, printed = run(main, *words, *size, *flags)
    assert code == 0, printed.err
    assert "small: 2 of 2 generations of 3 members" in printed.out
    folder = tmp_path / "multirun/tune/small"
    first, last = json.loads((folder / "population.json").read_text())
    assert [each["how"] for each in first] == ["begun"] * 3
    assert {each["ended"] for each in last} == {True}
    for each in last:
        frames = json.loads((folder / each["run"] / "status.json").read_text())["frames"]
        assert frames == 256
        rows = (folder / each["run"] / "metrics.jsonl").read_text().splitlines()
        rates = [json.loads(row)["policy/learning_rate"] for row in rows]
        assert rates[-1] == pytest.approx(each["params"]["agent.optimizer.learning_rate"])
        begins = 256 if each["parent"] != each["number"] else 128  # a branch has rows of its own
        assert [json.loads(row)["frames"] for row in rows] == list(range(begins, 257, 128))
    assert any(each["parent"] != each["number"] for each in last)
    assert (folder / "report.html").exists()
    again, printed = run(main, *words, *size, *flags)
    assert (again, "6 trainings of a generation have ended" in printed.out) == (0, True)
