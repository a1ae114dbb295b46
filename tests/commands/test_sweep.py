"""navrl sweep: a sweep that was killed goes on to the same results, and tells what it lacks."""

import json
import os
import signal
from unittest import mock

import pytest

import navrl.train
from navrl.commands.sweep import main
from navrl.loggers.composite import Loggers
from navrl.run.lock import RunLock
from navrl.storage.checkpoint import load
from navrl.storage.compare import differences
from navrl.storage.find import find
from tests.command_line import command, process
from tests.halting import untimed_rows
from tests.run.test_sweep import write_job, write_sweep

OPTIONS = (
    *("-m", "experiment=debug", "logger=none", "console=none", "opponent=straight", "seed=1,2"),
    *("num_envs=4", "total_frames=96", "agent.num_minibatches=2", "checkpoint.save_every=1"),
    *("env.sim.tick_s=0.25", "eval_opponents=[straight]", "eval_episodes=4"),
    "hydra.sweep.dir=multirun/s",
)


@pytest.fixture
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def train_and_be_killed():
    """The train command; kill -9 comes in the second iteration of the first job."""
    log, calls = Loggers.log, []

    def killed(self, metrics, *, iteration, frames):
        log(self, metrics, iteration=iteration, frames=frames)
        calls.append(iteration)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    with mock.patch.object(Loggers, "log", killed):
        navrl.train.main()


@pytest.mark.commands
def test_a_killed_sweep_goes_on_to_the_same_results(tmp_path, monkeypatch, capsys):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    assert process(train_and_be_killed, *OPTIONS, folder=killed).returncode == -signal.SIGKILL
    monkeypatch.chdir(whole)
    assert command(navrl.train.main, *OPTIONS) == 0
    monkeypatch.chdir(killed)
    capsys.readouterr()
    assert main(["--missing", "multirun/s"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "multirun/s: 2 jobs: 1 killed, 1 never started"
    assert [line.split() for line in lines[2:4]] == [
        ["0", "killed", "32", "seed=1"],
        ["1", "never", "started", "0", "seed=2"],
    ]
    assert lines[4].endswith("navrl sweep --missing multirun/s --run")
    assert main(["--missing", "multirun/s", "--run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "multirun/s: 2 jobs: 2 finished"
    for job in "01":
        runs = [folder / "multirun/s" / job for folder in (whole, killed)]
        first, second = (untimed_rows(run) for run in runs)
        assert first == second
        assert len(first) == 3
        states = [load(find(str(run), run)) for run in runs]
        assert differences(*states) == []
        scores = [json.loads((run / "summary.json").read_text()) for run in runs]
        assert scores[0]["eval/straight/return"] == scores[1]["eval/straight/return"]


@pytest.mark.usefixtures("_here")
def test_a_complete_sweep_runs_nothing(tmp_path, capsys):
    folder = write_sweep(tmp_path / "s", "seed=1,2")
    for number in (0, 1):
        write_job(folder / str(number), f"seed={number + 1}")
    for words in ((), ("--run",)):
        assert main(["--missing", "s", *words]) == 0
        assert capsys.readouterr().out == "s: 2 jobs: 2 finished\n"


@pytest.mark.usefixtures("_here")
def test_a_sweep_that_still_runs_is_left_alone(tmp_path, capsys):
    folder = write_sweep(
        tmp_path / "s", "seed=1,2", launcher=["hydra/launcher=joblib", "hydra.sweep.dir=s"]
    )
    write_job(folder / "0", "seed=1", state="running")
    with RunLock(folder / "0"):
        assert main(["--missing", "s"]) == 0
        assert "started with hydra/launcher=joblib: add" in capsys.readouterr().out
        assert main(["--missing", "s", "--run"]) == 2
    assert "s/0 is running, and its sweep may yet start other jobs" in capsys.readouterr().err
    assert not (folder / "1").exists()


@pytest.mark.usefixtures("_here")
def test_names_of_a_stranger_move_no_cursor(tmp_path, capsys):
    folder = write_sweep(tmp_path / "s", "env=combat", "seed=1,2")
    write_job(folder / "0", "seed=1", state="failed", reason="\x1b[2J" + "x" * 1000)
    assert main(["--missing", "s"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert max(map(len, printed.splitlines())) < 250


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no sweep is named"),
        (["--missing", "nowhere"], "there is no folder nowhere; expected that of a sweep"),
        (["--missing", "."], ". holds no multirun.yaml; expected the folder of a sweep"),
        (["s"], "did you mean --missing s?"),
        (["--missing", "s", "device=cpu"], "device=cpu changes nothing in a list"),
        (["--missing", "s", "--runs"], "did you mean '--run'"),
        (["--missing", "s", "--run", "hydra/launcher=joblip"], "joblip"),
        (["--missing", "s", "--run", "hydra.launcher.n_jobs=2"], "as in hydra/launcher=joblib"),
        (["--missing", "s", "--run", "sede=1"], "did you mean 'seed'"),
        (["--missing", "s", "--run", "total_frames=0.5", "agent=pppo"], "Unknown agent 'pppo'"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, capsys, arguments, sentence):
    write_sweep(tmp_path / "s", "env=combat", "seed=1,2")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
