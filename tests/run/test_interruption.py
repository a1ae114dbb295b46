"""Signals, full disks and folders that vanish, met by a whole training run with each saver."""

import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from unittest import mock

import pytest

import navrl.train
from navrl.loggers.composite import Loggers
from navrl.loggers.jsonl import read_metrics
from navrl.run.signals import Interrupt
from navrl.storage.checkpoint import load
from navrl.storage.find import find
from navrl.storage.saver import CheckpointSaver
from tests.command_line import command, process
from tests.halting import STOP_AFTER, train_and_halt

pytestmark = pytest.mark.commands
TINY = (
    *("experiment=debug", "logger=none", "console=lines", "eval_opponents=[]", "opponent=crank"),
    *("num_envs=8", "checkpoint.save_every=1", "total_frames=256", "hydra.run.dir=outputs/run"),
    "env.sim.tick_s=0.25",
)
RUN = Path("outputs/run")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def train(*arguments):
    return command(navrl.train.main, *TINY, *arguments)


def signalled_twice():
    """The train command, signalled twice while the disk takes its time over the second checkpoint."""
    write, note, noted = CheckpointSaver.write, Interrupt._note, threading.Event()

    def slow(self, content, **options):
        if self.saved_frames:
            os.kill(os.getpid(), signal.SIGTERM)
            assert noted.wait(60)
            time.sleep(0.6)  # two at once would be one
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(300)  # longer than this process may take
        return write(self, content, **options)

    def noting(self, number, frame):
        noted.set()
        note(self, number, frame)

    with (
        mock.patch.object(CheckpointSaver, "write", slow),
        mock.patch.object(Interrupt, "_note", noting),
    ):
        navrl.train.main()


@pytest.mark.parametrize("saver", ["sync", "async"])
def test_a_second_signal_ends_at_once_even_while_a_checkpoint_is_written(tmp_path, saver):
    done = process(signalled_twice, *TINY, f"checkpoint={saver}", folder=tmp_path)
    assert done.returncode == 143, done.stderr
    assert "stopped at once; the last save is of frame 64" in done.stderr
    assert load(find("run", tmp_path / "outputs"))["iteration"] == 1
    assert json.loads((RUN / "status.json").read_text())["state"] == "interrupted"
    assert train("resume=auto", f"checkpoint={saver}") == 0
    rows = read_metrics(RUN / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4]


def test_the_first_signal_waits_for_the_thread(tmp_path):
    stop = {STOP_AFTER: "2"}
    words = (*TINY, "checkpoint=async")
    done = process(train_and_halt, *words, folder=tmp_path, environment=stop)
    assert done.returncode == 143, done.stderr
    assert "saved. To go on:" in done.stdout
    assert load(find("run", tmp_path / "outputs"))["iteration"] == 2
    last = json.loads((RUN / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"time/save_snapshot", "saver/pending", "saver/dropped", "saver/failed"} <= set(last)


@pytest.fixture
def bad_disk(monkeypatch):
    """Checkpoints of the iterations in the set meet a full disk."""
    bad, write = set(), CheckpointSaver.write

    def failing(self, content, **options):
        if content.frames // 64 in bad:
            raise OSError(28, "No space left on device")
        return write(self, content, **options)

    monkeypatch.setattr(CheckpointSaver, "write", failing)
    return bad


@pytest.mark.parametrize("saver", ["sync", "async"])
def test_a_full_disk_is_reported_and_training_goes_on(bad_disk, capsys, tmp_path, saver):
    bad_disk |= {2}
    assert train(f"checkpoint={saver}", "checkpoint.keep_last=9") == 0
    assert "No space left on device); the run goes on and tries again" in capsys.readouterr().out
    names = sorted(path.name[-9:-5] for path in RUN.glob("checkpoints/step_*"))
    assert names == ["0064", "0192", "0256"]


@pytest.mark.parametrize("saver", ["sync", "async"])
@pytest.mark.parametrize(
    ("bad", "words", "kept"), [(2, ["checkpoint.on_error=stop"], {1, 3}), (4, [], {3})]
)
def test_on_error_stop_and_the_last_save_end_with_an_error(
    bad_disk, capsys, tmp_path, saver, bad, words, kept
):
    bad_disk |= {bad}
    assert train(f"checkpoint={saver}", *words) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert json.loads((RUN / "status.json").read_text())["state"] == "failed"
    assert load(find("run", tmp_path / "outputs"))["iteration"] in kept


@pytest.mark.parametrize("saver", ["sync", "async"])
@pytest.mark.parametrize(
    "deleted", ["outputs/run/checkpoints", "outputs/run/rollouts", "outputs/run"]
)
def test_what_is_deleted_in_mid_run_is_made_again(caplog, capsys, monkeypatch, deleted, saver):
    log = Loggers.log

    def deleting(self, metrics, *, iteration, frames):
        if iteration == 2:
            shutil.rmtree(deleted)
        log(self, metrics, iteration=iteration, frames=frames)

    monkeypatch.setattr(Loggers, "log", deleting)
    words = (
        "rollouts=disk",
        "rollouts.save_every=1",
        f"checkpoint={saver}",
        "checkpoint.keep_last=9",
    )
    assert train(*words) == 0
    said = caplog.text + capsys.readouterr().out
    assert said.count(f"{Path(deleted).name} was deleted") == 1
    assert [row["iteration"] for row in read_metrics(RUN / "metrics.jsonl")][-2:] == [3, 4]
    assert json.loads((RUN / "status.json").read_text())["state"] == "finished"
    assert (RUN / "config.yaml").is_file()
    kept = len(list((RUN / "checkpoints").glob("step_*")))
    assert kept == (4 if deleted.endswith("rollouts") else 3)
    assert len(list((RUN / "rollouts").iterdir())) == (4 if deleted.endswith("checkpoints") else 2)
    assert train("resume=auto", "total_frames=320") == 0
    assert load(find("run", Path("outputs")))["iteration"] == 5


@pytest.mark.parametrize(
    ("folder", "words"), [("checkpoints", ()), ("rollouts", ("rollouts=disk",))]
)
def test_a_run_that_cannot_save_says_so_before_it_trains(capsys, monkeypatch, folder, words):
    fsync = os.fsync

    def full(descriptor):
        if f"/{folder}/" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    assert train(*words) == 1
    error = capsys.readouterr().err
    assert error.startswith("navrl: error: nothing can be saved in ")
    assert f"outputs/run/{folder}': No space left on device; make room" in error
    assert list((RUN / folder).iterdir()) == []
    assert (RUN / "metrics.jsonl").read_bytes() == b""
