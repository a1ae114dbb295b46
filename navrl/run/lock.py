"""The lock of a run directory: one process writes a run, whatever happens to the files inside."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from navrl.run.status import read_status
from navrl.storage.files import is_at

_LOG = logging.getLogger(__name__)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
_LOCK_FILE = ".lock"
_NO_LOCK_SUPPORT = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}
_LOCKS = Path("/proc/locks")


class RunDirectoryError(OSError):
    """The run directory cannot be used; the message is one sentence for the user."""


class RunLock:
    """The right to write the run in `path`, which is made if it is missing; held until `release`.

    The directory itself is locked, so that no file that somebody deletes gives a second process the right.
    The system releases the lock of a process that was killed.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with plain_errors(self.path):
            self._descriptor = _acquire(self.path)

    def restore(self) -> bool:
        """Lock the directory that has the path by now; return whether it was another one, or none."""
        with plain_errors(self.path):
            places = (self.path, self.path / _LOCK_FILE)
            if self._descriptor >= 0 and any(is_at(path, self._descriptor) for path in places):
                return False
            self.release()
            self._descriptor = _acquire(self.path)
        return True

    def release(self) -> None:
        """Give the right back."""
        if self._descriptor >= 0:
            # Not only closed: a child that was forked may have the same open file.
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_locked(path: Path) -> bool:
    """Return whether a process, of this machine or where the file system tells, writes the run there."""
    try:
        RunLock(path).release()
    except RunDirectoryError as error:
        return isinstance(error.__cause__, BlockingIOError)
    return False


@contextlib.contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn errors of the system about a run directory into one sentence."""
    try:
        yield
    except RunDirectoryError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise RunDirectoryError(
            f"cannot write the run directory {str(path)!r}: {reason}; "
            "choose a folder you can write to with hydra.run.dir=<folder>"
        ) from error


def _acquire(path: Path) -> int:
    """Return the descriptor that holds the lock: of the directory, or on NFS of a file in it."""
    try:
        return _lock(path, path, _DIRECTORY)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
    return _lock(path, path / _LOCK_FILE, _FILE)  # NFS locks only what is open for writing


def _lock(path: Path, target: Path, flags: int) -> int:
    """Return a descriptor that locks `target`, which is the directory or a file in it."""
    while True:
        path.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(target, flags | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # another process has removed the empty directory since
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCK_SUPPORT:
                found = os.fstat(descriptor)
                os.close(descriptor)
                if isinstance(error, BlockingIOError):
                    raise _in_use(path, found) from error
                raise
            _LOG.warning("%s cannot be locked here (%s); start one run per folder", path, error)
        if is_at(target, descriptor):
            return descriptor
        os.close(descriptor)  # removed or replaced before it was locked


def _in_use(path: Path, found: os.stat_result) -> RunDirectoryError:
    holder = _locked_by(found) or read_status(path).get("pid") or "unknown"
    return RunDirectoryError(
        f"the run directory {str(path)!r} is in use by process {holder}; "
        "wait for it to end or choose another folder"
    )


def _locked_by(found: os.stat_result) -> int | None:
    """Return the process that the system knows to hold the lock, if it lists locks."""
    return (listed_locks() or {}).get((found.st_dev, found.st_ino))


def listed_locks() -> dict[tuple[int, int], int] | None:
    """Return the process of every lock that the system lists, by device and number of its file.

    None if it lists none. For who looks often: trying a lock, as `is_locked` does, may for an instant keep a
    training from starting.
    """
    found: dict[tuple[int, int], int] = {}
    try:
        lines = _LOCKS.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    for line in lines:
        match line.split():
            case [_, "FLOCK", _, _, pid, where, *_]:
                with contextlib.suppress(ValueError):
                    major, minor, inode = where.split(":")
                    device = os.makedev(int(major, 16), int(minor, 16))
                    found[device, int(inode)] = int(pid)
    return found


def is_held(path: Path, locks: Mapping[tuple[int, int], int]) -> bool:
    """Return whether a process writes the run in `path`, by what `listed_locks` returned.

    Some file systems, such as btrfs, name another device in that list: then the process has to be the one
    in the run's status.
    """
    for place in (path, path / _LOCK_FILE):
        with contextlib.suppress(OSError):
            found = os.stat(place, follow_symlinks=False)
            holders = [pid for (_, inode), pid in locks.items() if inode == found.st_ino]
            if holders and (
                (found.st_dev, found.st_ino) in locks or read_status(path).get("pid") in holders
            ):
                return True
    return False
