"""Ranks that end, wrong numbers of ranks, and what is left of the run."""

import json
import os
import signal
import socket
import sys
import time
from datetime import timedelta

import pytest
import torch

from navrl import train
from navrl.run import ranks
from tests.command_line import command, process
from tests.ranks.several import begin

TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "num_envs=12"),
    *("env.sim.tick_s=0.25", "env.sim.time_limit_s=12", "hydra.run.dir=outputs/run"),
)
WRONG = {
    "ranks=0": "ranks = 0; expected a whole number, 1 or more",
    "ranks=two": "ranks = two; expected",
    "ranks=5": "num_envs = 12 cannot be shared evenly by 5 ranks; expected a multiple of 5",
    "ranks=2 shards=1": "shards = 1 cannot be shared evenly by 2 ranks; expected a multiple of 2",
    "ranks=2 shards=3": "shards = 3 cannot be shared evenly by 2 ranks",
    "shards=7": "num_envs = 12 cannot be shared evenly by shards = 7",
    "shards=4 agent.num_minibatches=16": "a minibatch has 6 frames, not a multiple of shards",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    assert command(train.main, *words.split(), *TINY) == 2
    _out, err = capsys.readouterr()
    (line,) = (text for text in err.splitlines() if text.startswith("navrl: error: "))
    assert WRONG[words] in line, line
    assert not list(tmp_path.glob("outputs/run/config.yaml"))


@pytest.mark.commands
def test_a_sweep_of_ranks_is_refused(tmp_path):
    done = process(train.main, "-m", *TINY, "ranks=2", folder=tmp_path)
    assert done.returncode == 1
    assert "navrl: error: ranks = 2 with -m; expected one of them" in done.stderr


def test_a_torch_without_its_launcher_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    assert command(train.main, *TINY, "ranks=2") == 2
    assert "this build of torch has no torch.distributed" in capsys.readouterr().err


def sentences(stderr):
    """What navrl has printed, without the warnings of torch's sockets."""
    return [line for line in stderr.splitlines() if line.startswith("navrl: ")]


def impatient():
    """The train command, which waits 2 s for other ranks; rank 1 is of another version, one may be absent."""
    if os.environ["RANK"] == os.environ.get("ABSENT"):
        return
    if os.environ["RANK"] == "1":
        ranks.__version__ = "0.0.9"
    sys.modules["navrl.ranks.world"]._ARRIVAL = timedelta(seconds=2)
    train.main()


@pytest.mark.commands
@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_that_do_not_meet_end_with_one_sentence(tmp_path, rank):
    absent = {"ABSENT": str(1 - rank)}
    processes = begin(2, *TINY, folder=tmp_path, main=impatient, environment=absent)
    ended = [each.finished(60.0) for each in processes]
    assert ended[rank].returncode == 1
    (line,) = sentences(ended[rank].stderr)
    assert "1 other ranks were not met at 127.0.0.1:" in line
    assert not (tmp_path / "outputs").exists()


@pytest.mark.commands
def test_a_port_that_is_taken_is_one_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])}
        (first, _) = begin(2, *TINY, folder=tmp_path, main=impatient, environment=place)
        ended = first.finished(60.0)
    assert ended.returncode == 1
    (line,) = sentences(ended.stderr)
    assert "EADDRINUSE" in line
    assert "expected all within 2 s at a free port" in line


@pytest.mark.commands
def test_another_version_on_a_host_is_named_before_anything_is_written(tmp_path):
    first, other = (
        each.finished(60.0) for each in begin(2, *TINY, folder=tmp_path, main=impatient)
    )
    assert (first.returncode, other.returncode) == (2, 1)
    assert f"rank 1 on {socket.gethostname()} has navrl 0.0.9, and rank 0 has navrl" in first.stderr
    assert first.stderr.count("\n") == 1
    assert other.stderr == ""
    assert not (tmp_path / "outputs" / "run" / "config.yaml").exists()


def begun(run, ranks, folder):
    processes = begin(ranks, *TINY, "total_frames=10000000", folder=folder)
    deadline = time.monotonic() + 60.0
    while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return processes


@pytest.mark.commands
@pytest.mark.parametrize("killed", [0, 1, 2])
def test_a_rank_that_dies_ends_the_others(tmp_path, killed):
    run = tmp_path / "outputs" / "run"
    processes = begun(run, 3, tmp_path)
    os.kill(processes[killed].child.pid, signal.SIGKILL)
    ended = [each.finished(30.0) for each in processes]
    codes = [each.returncode for each in ended]
    assert codes == [-signal.SIGKILL if rank == killed else 1 for rank in range(3)]
    if killed:  # rank 0 is the one that prints and records
        status = json.loads((run / "status.json").read_text())
        assert status["state"] == "failed"
        assert "another rank of this run has ended" in status["reason"]
        assert ended[0].stderr.count("\n") == 1


@pytest.mark.commands
@pytest.mark.parametrize("asked", [0, 1])
def test_a_signal_to_any_rank_saves_once(tmp_path, asked):
    run = tmp_path / "outputs" / "run"
    processes = begun(run, 2, tmp_path)
    os.kill(processes[asked].child.pid, signal.SIGTERM)
    codes = [each.finished(30.0).returncode for each in processes]
    assert codes == [128 + signal.SIGTERM, 0]
    assert json.loads((run / "status.json").read_text())["state"] == "interrupted"
    iterations = [json.loads(row)["iteration"] for row in (run / "metrics.jsonl").open()]
    assert iterations == list(range(1, len(iterations) + 1))
    assert len(list((run / "checkpoints").glob("*.ckpt"))) == 1


@pytest.mark.commands
def test_a_rank_that_is_frozen_ends_the_run(tmp_path):
    run = tmp_path / "outputs" / "run"
    processes = begun(run, 2, tmp_path)
    os.kill(processes[1].child.pid, signal.SIGSTOP)
    began = time.monotonic()
    first = processes[0].finished(40.0)
    assert time.monotonic() - began < 30.0
    assert first.returncode == 1
    assert processes[1].finished(5.0).returncode == -signal.SIGKILL
    assert "rank 1 (process " in json.loads((run / "status.json").read_text())["reason"]
