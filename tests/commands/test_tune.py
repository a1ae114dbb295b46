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
