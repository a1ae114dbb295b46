"""The run directory: lock, configuration, environment, and the link outputs/latest."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from navrl.run.environment import describe_environment
from navrl.run.status import State, now, status_after, write_status
from navrl.storage.files import to_json, write_atomically

_LOG = logging.getLogger(__name__)
_NO_LOCK_SUPPORT = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}


class RunDirectoryError(OSError):
    """The run directory cannot be used; the message is one sentence for the user."""


class RunDirectory:
    """One run's folder: locked while open, described at the start, closed with a reason."""

    def __init__(
        self,
        path: Path | str,
        *,
        config: str,
        overrides: Sequence[str],
        device: str,
        latest: Path | str | None,
        resumed_from: str | None,
    ) -> None:
        self.path = Path(path)
        self.frames = 0  # the loop keeps this current, so that a crash is recorded with its frame
        self._state: State = "running"
        self._lock = -1
        with _plain_errors(self.path):
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            self._lock = _acquire(self.path / ".lock")
            try:
                self.resumed = (self.path / "config.yaml").exists()
                if self.resumed and resumed_from is None:
                    raise RunDirectoryError(
                        f"{str(self.path)!r} holds a run already; go on with resume={self.path}, or "
                        "choose another folder with hydra.run.dir=<folder>"
                    )
                self._describe(config, overrides, device, resumed_from)
                self.set_status("running")
            except BaseException:
                self._release()
                raise
        if latest is not None:
            _point(Path(latest), self.path)

    @property
    def checkpoints(self) -> Path:
        """Return the folder of this run's checkpoints."""
        return self.path / "checkpoints"

    def set_status(self, state: State, *, reason: str = "", frames: int | None = None) -> None:
        """Replace status.json; `frames` are those made, unless others are given."""
        self._state = state
        write_status(self.path, state, reason, self.frames if frames is None else frames)

    def close(self) -> None:
        """Release the lock; a run without any other end counts as finished."""
        if self._lock < 0:
            return
        if self._state == "running":
            self._settle("finished", "")
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and self._state == "running":
            self._settle(*status_after(error))
        self.close()

    def _settle(self, state: State, reason: str) -> None:
        try:
            self.set_status(state, reason=reason)
        except OSError as error:  # a full disk must not hide the error that ended the run
            _LOG.error("cannot write %s: %s", self.path / "status.json", error)

    def _release(self) -> None:
        if self._lock >= 0:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
        self._lock = -1

    def _describe(
        self, config: str, overrides: Sequence[str], device: str, resumed_from: str | None
    ) -> None:
        environment = describe_environment(device)
        if self.resumed:
            first = (self.path / "config.yaml").read_bytes()
            resume = {
                "time": now(),
                "from": resumed_from,
                "overrides": list(overrides),
                "config": None if config.encode() == first else config,
                "environment": environment,
            }
            with (self.path / "resumes.jsonl").open("a", encoding="utf-8") as file:
                file.write(to_json(resume) + "\n")
            return
        # config.yaml comes last: where it exists, the first start was described completely
        write_atomically(self.path / "environment.json", to_json(environment, indent=2) + "\n")
        write_atomically(self.path / "summary.json", "{}\n")
        write_atomically(self.path / "overrides.yaml", _yaml_list(overrides))
        write_atomically(self.path / "config.yaml", config)


def _yaml_list(items: Sequence[str]) -> str:
    # a JSON string is a YAML string, so no YAML library is needed to quote it
    return "".join(f"- {json.dumps(item, ensure_ascii=False)}\n" for item in items) or "[]\n"


@contextlib.contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
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
    """Return a descriptor that holds the exclusive lock; the error names the pid that has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise RunDirectoryError(
            f"the run directory {str(path.parent)!r} is in use by process {holder}; "
            "wait for it to end or choose another folder"
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCK_SUPPORT:
            os.close(descriptor)
            raise
        _LOG.warning("%s cannot be locked here (%s); start one run per folder", path, error)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _point(latest: Path, run: Path) -> None:
    """Make `latest` lead to `run`; a convenience, so it warns where it cannot."""
    temporary = latest.with_name(f".{latest.name}.{os.getpid()}.tmp")
    try:
        target = os.path.relpath(run.resolve(), latest.parent.resolve())
        temporary.unlink(missing_ok=True)
        try:
            temporary.symlink_to(target)
        except (OSError, NotImplementedError):
            temporary.write_text(f"{target}\n", encoding="utf-8")
        os.replace(temporary, latest)
    except OSError as error:
        _LOG.warning("cannot update %s: %s", latest, error)
        temporary.unlink(missing_ok=True)
