"""`navrl train ranks=N`: the process that starts the ranks, its signals, restarts and refusals."""

import json
import os
import shutil
import signal
import time

import pytest

from navrl import train
from navrl.run import launch, records
from navrl.run.supervisor import Ended
from tests.command_line import Started, command, process

TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "num_envs=12"),
    *("env.sim.tick_s=0.25", "env.sim.time_limit_s=12", "hydra.run.dir=outputs/run"),
)
ENDLESS = (*TINY, "total_frames=10000000", "checkpoint.save_every=1000000")


def rows(run):
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["iteration"] for line in lines]


def wait_for(condition):
    deadline = time.monotonic() + 90.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.commands
def test_signals_reach_the_ranks(tmp_path):
    run = tmp_path / "outputs" / "run"
    launcher = Started(train.main, *ENDLESS, "ranks=2", folder=tmp_path)
    wait_for(lambda: len(rows(run)) > 2)
    os.kill(launcher.child.pid, signal.SIGUSR1)
    wait_for(lambda: list(run.glob("checkpoints/step_*.ckpt")))
    assert json.loads((run / "status.json").read_text())["state"] == "running"
    os.kill(launcher.child.pid, signal.SIGTERM)
    ended = launcher.finished(60.0)
    assert ended.returncode == 128 + signal.SIGTERM, ended.stderr
    assert json.loads((run / "status.json").read_text())["state"] == "interrupted"
    assert len(list(run.glob("checkpoints/step_*.ckpt"))) == 2
    assert ended.stderr.count("saving after this iteration") == 1


@pytest.mark.commands
def test_a_rank_that_is_killed_is_started_again_with_the_others(tmp_path):
    run = tmp_path / "outputs" / "run"
    words = (*TINY, "total_frames=2400", "checkpoint.save_every=5", "ranks=2", "restarts=1")
    launcher = Started(train.main, *words, folder=tmp_path)
    wait_for(lambda: list(run.glob("checkpoints/step_*.ckpt")))
    os.kill(json.loads((run / "status.json").read_text())["pid"], signal.SIGKILL)
    ended = launcher.finished(120.0)
    assert ended.returncode == 0, ended.stderr
    (line,) = (text for text in ended.stderr.splitlines() if "killed" in text)
    assert line == "navrl: rank 0 was killed by SIGKILL, so the others ended too; restart 1 of 1"
    assert rows(run) == list(range(1, 26))


@pytest.mark.commands
def test_a_wrong_option_is_not_started_again(tmp_path):
    wrong = ("opponent=checkpoint", "opponent.checkpoint=nowhere")
    ended = process(train.main, *TINY, *wrong, "ranks=2", "restarts=3", folder=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert "nowhere" in ended.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run of 12 envs."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert command(train.main, *TINY, "total_frames=96") == 0
    return folder


@pytest.fixture
def launched(trained, monkeypatch, tmp_path):
    """The numbers of ranks that would be started with the options of this command, beside a copied run."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    started = []

    def note(number, words, folder):
        started.append(number)
        return Ended(0, "")

    monkeypatch.setattr(launch, "_launched", note)
    monkeypatch.setattr(launch, "cores", lambda: 3)
    return started


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("resume=outputs/run ranks=auto", 3),  # 3 divide the 12 envs of the run, not 1,024
        ("resume=outputs/run ranks=3", 3),
        ("resume=latest ranks=auto num_envs=64", 2),
        ("resume=latest ranks=auto num_envs=64 shards=2", 2),
        ("ranks=auto", 2),
    ],
)
def test_the_number_of_ranks_is_that_for_the_envs_of_the_run(launched, words, number):
    assert command(train.main, *words.split(), "experiment=debug", "logger=none") == 0
    assert launched == [number]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("resume=outputs/run ranks=5", "num_envs = 12 cannot be shared evenly by 5 ranks"),
        ("resume=latest ranks=2 restarts=2", "restarts = 2 goes on with the run of this very"),
        ("resume=latest ranks=2 shards=3", "shards = 3 cannot be shared evenly by 2 ranks"),
    ],
)
def test_numbers_that_do_not_fit_the_run_are_refused(launched, capsys, words, expected):
    assert command(train.main, *words.split(), "experiment=debug", "logger=none") == 2
    assert expected in capsys.readouterr().err
    assert launched == []


@pytest.mark.parametrize(("idle", "count"), [(1, 0), (2, 1)])
def test_a_training_says_why_it_leaves_cores_idle(tmp_path, monkeypatch, capsys, idle, count):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(records, "idle_cores", lambda: idle)
    assert command(train.main, *TINY, "total_frames=96", "console=lines") == 0
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("one of 2 idle cores trains") == count
