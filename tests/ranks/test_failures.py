"""Ranks that end, wrong numbers of ranks, and what is left of the run."""

import json
import os
import signal
import time

import pytest

from navrl import train
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


def test_a_sweep_of_ranks_is_refused(tmp_path):
    done = process(train.main, "-m", *TINY, "ranks=2", folder=tmp_path)
    assert done.returncode == 1
    assert "navrl: error: ranks = 2 with -m; expected one of them" in done.stderr


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
