"""Sweeps under every launcher: the runs of one process; signals reach jobs, which save."""

import os
import signal
import subprocess
import sys
import time

import pytest
from hydra.core.config_store import ConfigStore

import navrl.train
from navrl.config import launchers
from navrl.config.compose import compose_all
from navrl.config.launchers import JobStopped, unless_stopped, waiting_for_jobs
from navrl.config.signals import Stopped
from navrl.run.sweep import read_sweep
from tests.command_line import command
from tests.halting import untimed_rows

TINY = (
    *("experiment=debug", "logger=none", "console=none", "opponent=straight", "num_envs=4"),
    *("agent.num_minibatches=2", "env.sim.tick_s=0.25", "eval_opponents=[]", "total_frames=64"),
)
JOBLIB = "hydra_plugins.hydra_joblib_launcher.joblib_launcher.JoblibLauncher"


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """The rows of a run of its own with the second seed."""
    folder = tmp_path_factory.mktemp("single")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert command(navrl.train.main, *TINY, "seed=2", "hydra.run.dir=run") == 0
    return untimed_rows(folder / "run")


@pytest.mark.commands
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local", "ray"])
def test_jobs_of_every_launcher_are_those_of_one_process(tmp_path, launcher, single):
    words = ("-m", f"hydra/launcher={launcher}", *TINY, "seed=1,2", "hydra.sweep.dir=s")
    train = [sys.executable, "-m", "navrl.train", *words]
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled"}  # no token in the user's home
    done = subprocess.run(
        train, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [job.state for job in read_sweep(tmp_path / "s").jobs] == ["finished", "finished"]
    assert untimed_rows(tmp_path / "s" / "1") == single
    assert not (tmp_path / "outputs").exists()


@pytest.mark.commands
def test_jobs_of_joblib_save_before_a_signal_ends_the_sweep(tmp_path):
    words = ("-m", "hydra/launcher=joblib", *TINY, "seed=1,2,3", "hydra.sweep.dir=s")
    sweep = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "navrl.train",
            *words,
            "hydra.launcher.n_jobs=2",
            "total_frames=8000000",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    rows = [tmp_path / "s" / job / "metrics.jsonl" for job in "01"]
    while sweep.poll() is None and not all(row.exists() and row.stat().st_size for row in rows):
        time.sleep(0.05)
    sweep.send_signal(signal.SIGTERM)
    printed, _ = sweep.communicate(timeout=60)
    assert sweep.returncode == 128 + signal.SIGTERM
    again = "navrl sweep --missing s --run"
    assert (
        printed.splitlines()[-1] == f"navrl: the jobs were stopped by SIGTERM. To go on:  {again}"
    )
    assert "HYDRA_FULL_ERROR" not in printed
    jobs = read_sweep(tmp_path / "s").jobs
    assert [job.state for job in jobs] == ["interrupted", "interrupted", "never started"]
    for job in jobs[:2]:
        assert job.frames == untimed_rows(job.folder)[-1]["frames"]


@pytest.fixture
def in_joblib(monkeypatch):
    monkeypatch.setattr(launchers, "_stopped", [])
    found = compose_all("train", [])
    found.hydra.launcher["_target_"] = JOBLIB
    found.hydra.job.config_name = "train"
    found.hydra.sweep.dir = "s"
    monkeypatch.setattr(launchers.HydraConfig, "get", lambda: found.hydra)


@pytest.mark.usefixtures("in_joblib")
def test_a_process_of_joblib_that_was_stopped_begins_no_other_job():
    begun = []

    def stopped(code):
        begun.append(code)
        raise SystemExit(code)

    with pytest.raises(SystemExit):
        unless_stopped(stopped, 2)  # a wrong option
    with pytest.raises(JobStopped, match="s"):
        unless_stopped(stopped, 143)
    with pytest.raises(JobStopped, match="s"):
        unless_stopped(stopped, 143)
    assert begun == [2, 143]


def wait_for(child):
    with waiting_for_jobs(JOBLIB):
        os.kill(os.getpid(), signal.SIGTERM)
        assert child.wait(20) == 7


def send_twice():
    with waiting_for_jobs(JOBLIB):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)


def test_signals_are_relayed_to_children_and_the_second_ends_at_once(monkeypatch):
    waits = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); "
        "print(flush=True); time.sleep(60)"
    )
    command_line = [sys.executable, "-c", waits]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE) as child:
        assert child.pid in launchers._children()
        monkeypatch.setattr(launchers, "_children", lambda: [child.pid])  # pytest has others
        child.stdout.readline()
        with pytest.raises(Stopped, match="the jobs were stopped by SIGTERM"):
            wait_for(child)
    with pytest.raises(Stopped, match="stopped at once"):
        send_twice()


def test_a_missing_package_is_one_sentence(monkeypatch, capsys):
    compose_all("train", [])  # finds the plugins
    known = ConfigStore.instance().repo["hydra"]["launcher"]
    monkeypatch.delitem(known, "joblib.yaml")
    assert command(navrl.train.main, "-m", "hydra/launcher=joblib", "seed=1,2") == 2
    error = capsys.readouterr().err
    assert error == (
        "navrl: error: hydra/launcher=joblib needs a package that is not installed; "
        "pip install 'navrl[launch]'\n"
    )
