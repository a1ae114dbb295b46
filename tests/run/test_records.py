"""The records of a run after a save."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from navrl.run.directory import RunDirectory
from navrl.run.lock import RunLock
from navrl.run.records import Records
from navrl.storage.async_saver import AsyncSaver
from navrl.storage.saver import CheckpointSaver

OPTIONS: dict[str, Any] = {"keep_last": 9, "keep_best": 0, "save_every": 1, "on_error": "continue"}
OPTIONS |= {"compress": False}


@contextlib.contextmanager
def opened(path: Path) -> Iterator[RunDirectory]:
    options: dict[str, Any] = {"overrides": [], "device": "cpu", "latest": None}
    with (
        RunLock(path) as lock,
        RunDirectory(lock, config="a: 1\n", resumed_from=None, **options) as run,
    ):
        yield run


def records(run: RunDirectory, saver: Any) -> tuple[Records, list[str]]:
    notes: list[str] = []
    return Records(run, saver, SimpleNamespace(note=notes.append), None, None, None), notes  # type: ignore[arg-type]


def saved(records: Records, frames: int, *, last: bool = False) -> int:
    """The frames in status.json after a save."""
    records.run.frames = frames
    records.write({"x": torch.ones(3), "frames": frames}, score=None, stage=0, last=last)
    return int(json.loads((records.run.path / "status.json").read_text())["frames"])


def test_status_holds_the_frames_that_are_on_the_disk(tmp_path: Path) -> None:
    with opened(tmp_path / "run") as run:
        saver = AsyncSaver(directory=run.checkpoints, queue_size=2, when_full="wait", **OPTIONS)
        both, _ = records(run, saver)
        assert saved(both, 64, last=True) == 64
        with saver._changed:  # the thread cannot take the next one meanwhile
            assert saved(both, 128) == 64
        assert saved(both, 192, last=True) == 192
        saver.close()
        run.frames = 200  # made after the last save
    assert json.loads((run.path / "status.json").read_text())["frames"] == 200


def test_a_status_that_cannot_be_written_is_no_lost_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "run") as run:
        both, notes = records(run, CheckpointSaver(directory=run.checkpoints, **OPTIONS))
        with monkeypatch.context() as patched:
            patched.setattr(
                run, "set_status", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space"))
            )
            saved(both, 64, last=True)
        assert notes == ["status.json not written ([Errno 28] No space); the checkpoint is"]
        assert both.saver.saved_frames == 64
