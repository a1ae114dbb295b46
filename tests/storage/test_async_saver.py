"""checkpoint=async: a full queue, a failing disk, and the end of the run."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from navrl.storage.async_saver import AsyncSaver, QueueFull, Snapshot
from navrl.storage.checkpoint import load
from navrl.storage.info import checkpoint_files, frames_of
from navrl.storage.saver import CheckpointSaver, SaveFailed


def saver(directory, **changes):
    options = {
        **{"keep_last": 99, "keep_best": 1, "save_every": 1, "on_error": "stop", "compress": False},
        **{"queue_size": 1, "when_full": "wait"},
    }
    return AsyncSaver(directory=directory, **(options | changes))


def save(writer, *steps):
    for step in steps:
        writer.save({"step": step, "x": torch.full((8,), float(step))}, frames=step, score=None)


def saved(directory):
    return sorted(frames_of(path.name) for path in checkpoint_files(directory))


@pytest.fixture
def slow_disk(monkeypatch):
    """Writing begins (`begun` is set) and goes on once `go` is set."""
    begun, go = threading.Event(), threading.Event()
    write = CheckpointSaver.write

    def waiting(self, flat, **options):
        begun.set()
        assert go.wait(30)
        return write(self, flat, **options)

    monkeypatch.setattr(CheckpointSaver, "write", waiting)
    yield begun, go
    go.set()


@pytest.fixture
def failing_disk(monkeypatch):
    """Writing fails for the steps in the set."""
    bad = set()
    write = CheckpointSaver.write

    def failing(self, flat, **options):
        if flat.frames in bad:
            raise OSError(28, "No space left on device")
        return write(self, flat, **options)

    monkeypatch.setattr(CheckpointSaver, "write", failing)
    return bad


def test_save_returns_before_anything_is_written_and_flush_after(tmp_path, slow_disk):
    begun, go = slow_disk
    writer = saver(tmp_path)
    save(writer, 1)
    assert begun.wait(30)
    assert (saved(tmp_path), writer.saved_frames, writer.pending) == ([], None, 1)
    go.set()
    writer.flush()
    assert (saved(tmp_path), writer.saved_frames, writer.pending) == ([1], 1, 0)
    assert json.loads((tmp_path / "latest").read_text())["file"] == "step_000000000001.ckpt"
    writer.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_only_the_thread_that_writes_steps_back_for_the_training(tmp_path, monkeypatch):
    write, seen = CheckpointSaver.write, []

    def watched(self, flat, threads):
        niceness = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        seen.append((niceness, threads))
        return write(self, flat, threads)

    monkeypatch.setattr(CheckpointSaver, "write", watched)
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    with saver(tmp_path) as writer:
        save(writer, 1)
    assert seen == [(min(before + 5, 19), 1)]  # 19 is the least urgent that Linux has
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_drop_oldest_skips_what_waits_longest_and_never_what_is_being_written(tmp_path, slow_disk):
    begun, go = slow_disk
    writer = saver(tmp_path, when_full="drop_oldest", queue_size=2)
    save(writer, 1)
    assert begun.wait(30)
    save(writer, 2, 3, 4, 5)
    assert writer.dropped == 2
    go.set()
    writer.close()
    assert saved(tmp_path) == [1, 4, 5]
    assert [load(path)["x"][0].item() for path in checkpoint_files(tmp_path)] == [5.0, 4.0, 1.0]


def test_fail_refuses_the_new_one(tmp_path, slow_disk):
    begun, go = slow_disk
    writer = saver(tmp_path, when_full="fail")
    save(writer, 1)
    assert begun.wait(30)
    save(writer, 2)
    with pytest.raises(QueueFull, match=r"2 checkpoints still wait .* frame 3 is not saved"):
        save(writer, 3)
    go.set()
    writer.close()
    assert (saved(tmp_path), writer.dropped) == ([1, 2], 1)


def test_wait_waits(tmp_path, slow_disk):
    begun, go = slow_disk
    writer = saver(tmp_path)
    save(writer, 1)
    assert begun.wait(30)
    save(writer, 2)
    third = threading.Thread(target=save, args=(writer, 3))
    third.start()
    third.join(0.2)
    assert third.is_alive()
    go.set()
    third.join(30)
    writer.close()
    assert saved(tmp_path) == [1, 2, 3]
    assert writer.metrics()["time/save_wait"] > 0.0


def test_a_failure_is_raised_once_by_the_next_call_which_saves_all_the_same(tmp_path, failing_disk):
    failing_disk.add(2)
    writer = saver(tmp_path)
    save(writer, 1, 2)
    while writer.pending:
        time.sleep(0.001)
    with pytest.raises(SaveFailed, match=r"frame 2 was not written: .*No space"):
        save(writer, 3)
    save(writer, 4)
    writer.close()
    assert saved(tmp_path) == [1, 3, 4]
    assert writer.metrics()["saver/failed"] == 1.0


def test_close_raises_what_failed_last_and_is_harmless_afterwards(tmp_path, failing_disk):
    failing_disk.add(2)
    writer = saver(tmp_path)
    save(writer, 1, 2)
    with pytest.raises(SaveFailed, match="frame 2"):
        writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        save(writer, 3)
    assert saved(tmp_path) == [1]


def test_a_defect_is_not_taken_for_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(CheckpointSaver, "write", lambda self, flat, threads: 1 / 0)
    writer = saver(tmp_path)
    save(writer, 1)
    with pytest.raises(ZeroDivisionError):
        writer.flush()
    writer.close()


def test_an_exception_in_training_drains_and_is_not_hidden(tmp_path, failing_disk):
    failing_disk.add(2)
    writer = saver(tmp_path)
    save(writer, 1, 2)
    with pytest.raises(RuntimeError, match="the real one"), writer:
        raise RuntimeError("the real one")
    assert saved(tmp_path) == [1]


@pytest.mark.parametrize("error", [SystemExit(143), KeyboardInterrupt()])
def test_who_leaves_at_once_waits_for_nothing_but_the_file_under_way(tmp_path, slow_disk, error):
    begun, go = slow_disk
    writer = saver(tmp_path)
    save(writer, 1)
    assert begun.wait(30)
    save(writer, 2)
    with pytest.raises(type(error)), writer:
        raise error  # the disk is stuck all this time
    assert (saved(tmp_path), writer.dropped) == ([], 1)
    go.set()
    writer._thread.join(30)
    assert saved(tmp_path) == [1]


def test_a_state_that_cannot_be_copied_costs_no_snapshot(tmp_path):
    writer = saver(tmp_path)
    for _ in range(5):
        with pytest.raises(TypeError, match="generator"):
            writer.save({"generator": torch.Generator()}, frames=1, score=None)
    save(writer, 2)
    writer.close()
    assert saved(tmp_path) == [2]


def test_a_process_that_just_ends_loses_nothing(tmp_path):
    script = (
        "import sys, torch; from pathlib import Path; from navrl.storage import AsyncSaver\n"
        "saver = AsyncSaver(directory=Path(sys.argv[1]), keep_last=9, keep_best=0, save_every=1,"
        " on_error='stop', compress=False, queue_size=4, when_full='wait')\n"
        "for step in (1, 2, 3): saver.save({'x': torch.ones(300_000)}, frames=step, score=None)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script, tmp_path], cwd=root, check=False)
    assert done.returncode == 0
    assert saved(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"queue_size": 0}, "checkpoint.queue_size = 0"),
        (
            {"when_full": "explode"},
            "expected one of wait, drop_oldest, fail; change checkpoint.when_full",
        ),
        ({"on_error": "explode"}, "checkpoint.on_error = explode"),
    ],
)
def test_options_out_of_range_are_named(tmp_path, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        saver(tmp_path / "run", **change)
    assert os.listdir(tmp_path) == []


def test_a_snapshot_reuses_its_memory_and_shares_none(tmp_path):
    one, two = Snapshot(), Snapshot()
    live = {"a": torch.ones(5), "b": torch.zeros(2, 3).t(), "c": torch.ones(1).expand(4)}
    first, second = one.fill(live), two.fill(live)
    live["a"].fill_(7.0)
    assert first["a"].tolist() == [1.0] * 5
    places = {tensor.data_ptr() for tensor in (*first.values(), *second.values(), *live.values())}
    assert len(places) == 9
    again = one.fill(live | {"a": torch.ones(6)})
    assert again["b"].data_ptr() == first["b"].data_ptr()
    assert again["a"].shape == (6,)
    assert again["c"].tolist() == [1.0] * 4
