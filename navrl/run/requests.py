"""Requests to a running training, from other processes: files that its loop looks for in every iteration."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from navrl.config.checks import ConfigError, printable, require_choice
from navrl.config.quoting import shown_path
from navrl.run.lock import is_locked
from navrl.run.status import read_status
from navrl.storage.files import make_directory, open_regular

STOP, SAVE, EVALUATE = "stop", "save", "evaluate"
# Each with what the training does once its iteration is over.
REQUESTS: Mapping[str, str] = {
    STOP: "saves and ends, as after Ctrl-C",
    SAVE: "saves",
    EVALUATE: "plays held-out episodes, as eval_every does",
}
_FOLDER = "requests"  # in the run directory
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def request(run: Path, name: str) -> None:
    """Leave a request for the training that writes this run; raise ConfigError if there is none."""
    require_choice("request", name, REQUESTS)
    _require_running(run)
    make_directory(run / _FOLDER)
    os.close(open_regular(run / _FOLDER / name, os.O_WRONLY | os.O_CREAT))


def take_requests(run: Path) -> frozenset[str]:
    """Return the names of the requests that have come since the last call, and remove their files.

    Without any this takes microseconds. Nothing that is a link is followed: a run may come from elsewhere.
    """
    try:
        folder = os.open(run / _FOLDER, _DIRECTORY)
    except OSError:
        return frozenset()
    try:
        return frozenset(name for name in REQUESTS if _removed(name, folder))
    finally:
        os.close(folder)


def is_requested(run: Path, name: str) -> bool:
    """Return whether this request waits to be taken."""
    return (run / _FOLDER / name).is_file()


def _removed(name: str, folder: int) -> bool:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)
        return True
    return False


def _require_running(run: Path) -> None:
    """Raise ConfigError unless a process trains in this folder."""
    if run.is_dir() and is_locked(run):
        return
    state = printable(read_status(run).get("state", "unknown"))[:40]
    ended = "its process is gone" if state == "running" else f"it is {state}"
    raise ConfigError(
        f"{shown_path(run)} does not train: {ended}; expected a running training; name another run"
    )
