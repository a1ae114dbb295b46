"""A write that fails or dies anywhere leaves the old file or the new one, and says so."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import torch

from navrl.storage.container import read, write
from navrl.storage.files import make_directory, read_foreign

OLD = [1.0, 2.0]
NEW = [3.0, 4.0, 5.0]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.ckpt"
    write(path, {"x": torch.tensor(OLD)}, {})
    return path


def test_a_write_that_stops_short_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:100]))
    write(tmp_path / "x", {"x": torch.tensor(NEW * 20)}, {})
    assert read(tmp_path / "x")[0]["x"].tolist() == NEW * 20


def test_the_names_of_new_folders_are_synced_whoever_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hydra makes the folder of a run: after a power cut its checkpoints are worth nothing without it."""
    synced: set[str] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    run = tmp_path / "outputs" / "run"
    run.mkdir(parents=True)
    monkeypatch.setattr(os, "fsync", fsync)
    make_directory(run / "checkpoints")
    assert (run / "checkpoints").is_dir()
    assert {str(run), str(run.parent), str(tmp_path)} <= synced


@pytest.mark.parametrize("operation", ["open", "write", "fsync", "close", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "no space"), KeyboardInterrupt()], ids=["os", "key"])
def test_a_failed_write_leaves_the_old_file_and_no_temp(
    old: Path, monkeypatch: pytest.MonkeyPatch, operation: str, error: BaseException
) -> None:
    real = getattr(os, operation)
    error = type(error)(*error.args)  # a new one: it will know its file
    calls = 0
    nth = 2 if operation == "write" else 1

    def fail(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            if operation == "close":
                real(*args)
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(os, operation, fail)
    with pytest.raises(type(error)) as caught:
        write(old, {"x": torch.tensor(NEW)}, {})
    monkeypatch.undo()
    assert isinstance(error, KeyboardInterrupt) or f"no space: '{old}'" in str(caught.value)
    assert list(old.parent.iterdir()) == [old]
    assert read(old)[0]["x"].tolist() == OLD


def test_a_failed_directory_sync_raises_and_leaves_the_new_file(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(5, "input/output error")
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="input/output"):
        write(old, {"x": torch.tensor(NEW)}, {})
    assert list(old.parent.iterdir()) == [old]
    assert read(old)[0]["x"].tolist() == NEW


def test_a_file_that_the_user_names_is_read_through_a_link_and_up_to_a_limit(
    tmp_path: Path,
) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("x")
    assert read_foreign(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="it has 5 bytes; expected at most 4"):
        read_foreign(tmp_path / "x", 4)
    with pytest.raises(OSError, match="it has more than 4 bytes"):  # although its size is 0
        read_foreign(Path("/proc/version"), 4)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="it is a pipe or a device; expected a file"):
            read_foreign(path, 9)
    with pytest.raises(IsADirectoryError):
        read_foreign(tmp_path, 9)
