"""`navrl collect` and collector=folder: one process plays, another learns, and weights come back."""

import os
import signal
import time

import pytest

from navrl import train
from navrl.commands import collect
from navrl.loggers.jsonl import read_iterations
from navrl.run.requests import STOP, request
from navrl.run.status import read_status
from navrl.storage.rollouts import iteration_of, rollout_files, rollout_header
from tests.command_line import Started, process

pytestmark = pytest.mark.commands
RUN = "outputs/run"
TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "num_envs=8"),
    *("env.sim.tick_s=0.25", "env.sim.time_limit_s=12", f"hydra.run.dir={RUN}"),
    *(
        "collector=folder",
        "checkpoint.save_every=1",
        "collector.wait_s=60",
        "checkpoint.keep_last=20",
    ),
)
ITERATION = 64  # frames


def learner(folder, iterations, *words):
    frames = f"total_frames={iterations * ITERATION}"
    return Started(train.main, *TINY, frames, *words, folder=folder)


def actor(folder, *words, name=RUN):
    return Started(collect.main, name, *words, folder=folder)


def wait_for(condition, timeout_s=60.0):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def begun(folder):
    """Wait until the learner has saved the weights that it begins with."""
    wait_for((folder / RUN / "checkpoints" / "latest").exists)


def rows(folder):
    return read_iterations(folder / RUN / "metrics.jsonl")


def iterations(folder):
    return [row["iteration"] for row in rows(folder)]


def test_weights_come_back_before_every_rollout(tmp_path):
    """Without lag GAE learns from them, which would refuse the rollouts of any older weights."""
    learns = learner(tmp_path, 6, "collector.max_lag=0", "strict=true")
    begun(tmp_path)
    plays = actor(tmp_path, "per_policy=1", "num_envs=8")
    found = learns.finished(120.0)
    assert found.returncode == 0, found.stderr
    assert iterations(tmp_path) == [1, 2, 3, 4, 5, 6]
    for row in rows(tmp_path):
        assert (row["sync/lag"], row["sync/refused_rollouts"]) == (0.0, 0.0)
        assert row["sync/replay_error"] < 1e-4
    ended = plays.finished(60.0)
    assert ended.returncode == 0, ended.stderr
    assert "the run has finished" in ended.stdout
    plays = actor(tmp_path, "per_policy=1")  # it waits for the run to go on
    newest = tmp_path / RUN / "inbox" / "actor-1"
    before = iteration_of(rollout_files(newest)[-1])
    wait_for(lambda: iteration_of(rollout_files(newest)[-1]) > before)
    found = learner(tmp_path, 9, "collector.max_lag=0", f"resume={RUN}").finished(120.0)
    assert found.returncode == 0, found.stderr
    assert iterations(tmp_path) == list(range(1, 10))
    assert plays.finished(60.0).returncode == 0


def test_two_actors_one_of_them_killed_and_a_killed_learner(tmp_path):
    learns = learner(tmp_path, 12, "resume=auto")
    begun(tmp_path)
    actors = [actor(tmp_path, "per_policy=1", "keep_last=100") for _ in range(2)]
    wait_for(lambda: (tmp_path / RUN / "metrics.jsonl").exists() and len(rows(tmp_path)) >= 3)
    assert actors[0].finished(0.0).returncode == -signal.SIGKILL
    wait_for(lambda: len(rows(tmp_path)) >= 5)
    assert learns.finished(0.0).returncode == -signal.SIGKILL
    learns = learner(tmp_path, 12, "resume=auto")
    actors.append(actor(tmp_path, "per_policy=1", "keep_last=100"))
    found = learns.finished(120.0)
    assert found.returncode == 0, found.stderr
    assert iterations(tmp_path) == list(range(1, 13))
    assert [row["sync/lag"] <= 4 for row in rows(tmp_path)] == [True] * 12
    assert actors[1].finished(60.0).returncode == 0
    assert actors[2].finished(60.0).returncode == 0
    folders = sorted(each.name for each in (tmp_path / RUN / "inbox").iterdir())
    assert folders == ["actor-1", "actor-2"]  # the third has taken over the place of the killed one
    for name in folders:
        files = rollout_files(tmp_path / RUN / "inbox" / name)
        numbers = [iteration_of(path) for path in files]
        assert len(numbers) == len(set(numbers)) > 0
        assert {rollout_header(path).meta["batch_size"][0] for path in files} == {
            8
        }  # all are whole


def test_a_request_or_a_signal_ends_both_and_the_learner_has_saved(tmp_path):
    learns = learner(tmp_path, 1000, "collector.wait_s=600")
    begun(tmp_path)
    plays = actor(tmp_path, "rollouts=2", "keep_last=2")
    assert "rollout 2 |" in plays.finished(60.0).stdout
    wait_for(lambda: (tmp_path / RUN / "metrics.jsonl").exists() and len(rows(tmp_path)) == 2)
    time.sleep(0.5)  # it waits for a third one
    request(tmp_path / RUN, STOP)
    wait_for(lambda: not learns.child.is_alive(), 30.0)
    assert "stopped by request" in str(read_status(tmp_path / RUN))
    learns = learner(tmp_path, 1000, "collector.wait_s=600", "resume=auto")
    plays = actor(tmp_path, "rollouts=1")
    wait_for(lambda: len(rows(tmp_path)) == 3)
    time.sleep(0.5)
    os.kill(learns.child.pid, signal.SIGINT)
    ended = learns.finished(30.0)
    assert ended.returncode == 130, ended.stderr
    plays.finished(30.0)
    assert read_status(tmp_path / RUN)["state"] == "interrupted"
    assert read_status(tmp_path / RUN)["frames"] == 3 * ITERATION
    plays = actor(tmp_path)
    inbox = tmp_path / RUN / "inbox" / "actor-1"
    newest = iteration_of(rollout_files(inbox)[-1])
    wait_for(lambda: iteration_of(rollout_files(inbox)[-1]) > newest)
    os.kill(plays.child.pid, signal.SIGTERM)
    ended = plays.finished(30.0)
    assert ended.returncode == 143
    assert "rollouts written to" in ended.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["scripted:pursuit"], "'scripted:pursuit' is scripted and draws no actions"),
        (["zoo:combat-scripts"], "is no run, so there is no folder for rollouts; expected --into"),
        (
            ["zoo:combat-scripts", "per_policy=1", "--into", "x"],
            "which stays as it is; expected a run",
        ),
        (["zoo:combat-scripts", "keep_last=0", "--into", "x"], "keep_last = 0; expected"),
        (["zoo:combat-scripts", "keep_lst=2", "--into", "x"], "did you mean 'keep_last'"),
        (["nowhere"], "no run, checkpoints directory or file is called 'nowhere'"),
    ],
)
def test_mistakes_are_one_sentence(words, sentence, run):
    code, printed = run(collect.main, *words)
    assert code == 2
    assert sentence in printed.err
    assert printed.err.count("\n") == 1


def test_a_policy_that_comes_along_plays_into_any_folder(tmp_path):
    words = ("zoo:combat-scripts", "num_envs=4", "rollout_steps=8", "rollouts=3", "compile=off")
    done = process(collect.main, *words, "--into", "there", "keep_last=2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(rollout_files(tmp_path / "there" / "actor-1")) == 2
