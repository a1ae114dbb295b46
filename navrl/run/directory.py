"""The run directory: configuration, environment, and the link outputs/latest."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

from navrl.config.quoting import override, shell_line, shown_path
from navrl.config.signals import held
from navrl.run.environment import describe_environment
from navrl.run.lock import RunDirectoryError, RunLock, plain_errors
from navrl.run.status import State, now, status_after, write_status
from navrl.storage.files import (
    append_line,
    make_directory,
    read_text,
    replace_by_link,
    to_json,
    write_atomically,
)

_LOG = logging.getLogger(__name__)


class RunDirectory:
    """One run's folder, locked by its owner: described at the start, closed with a reason."""

    def __init__(
        self,
        lock: RunLock,
        *,
        config: str,
        overrides: Sequence[str],
        device: str,
        latest: Path | str | None,
        resumed_from: str | None,
    ) -> None:
        self.path = lock.path
        self._lock = lock
        self._describe = partial(self._write_description, config, overrides, device, resumed_from)
        self.frames = 0  # the loop keeps this current, so that a crash is recorded with its frame
        self._state: State | None = None
        with plain_errors(self.path):
            make_directory(self.checkpoints)
            self.resumed = (self.path / "config.yaml").exists()
            if self.resumed and resumed_from is None:
                again = override("resume", shown_path(self.path))
                raise RunDirectoryError(
                    f"{str(self.path)!r} holds a run already; go on with {shell_line([again])}, or "
                    "choose another folder with hydra.run.dir=<folder>"
                )
            self._describe()
        if latest is not None:
            point(Path(latest), self.path)

    @property
    def checkpoints(self) -> Path:
        """Return the folder of this run's checkpoints."""
        return self.path / "checkpoints"

    def set_status(self, state: State, *, reason: str = "", frames: int | None = None) -> None:
        """Replace status.json; `frames` are those made, unless others are given."""
        self._state = state
        write_status(self.path, state, reason, self.frames if frames is None else frames)

    def __enter__(self) -> Self:
        """Set the status to running; one that ends here, or later, does not keep that status."""
        try:
            with plain_errors(self.path):
                self.set_status("running")
        except BaseException as error:
            self.settle(*status_after(error))
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Set the status, unless the run has any other end already."""
        if self._state == "running":
            self.settle(*(("finished", "") if error is None else status_after(error)))

    def restore(self) -> None:
        """Make the folder again, and describe the run in it, if it was deleted or moved."""
        if self._lock.restore():
            self.resumed = (self.path / "config.yaml").exists()
            self._describe()
            _LOG.warning(
                "%s was deleted or moved while the run went on; it is made again", self.path
            )

    def settle(self, state: State, reason: str = "") -> None:
        """Set the status for good."""
        try:
            with held():
                self.set_status(state, reason=reason)
        except OSError as error:  # a full disk must not hide the error that ended the run
            _LOG.error("cannot write %s: %s", self.path / "status.json", error)

    def _write_description(
        self, config: str, overrides: Sequence[str], device: str, resumed_from: str | None
    ) -> None:
        environment = describe_environment(device)
        if self.resumed:
            first = read_text(self.path / "config.yaml")
            resume = {
                "time": now(),
                "from": resumed_from,
                "overrides": list(overrides),
                "config": None if config == first else config,
                "environment": environment,
            }
            append_line(self.path / "resumes.jsonl", to_json(resume))
            return
        # config.yaml comes last: where it exists, the first start was described completely
        write_atomically(self.path / "environment.json", to_json(environment, indent=2) + "\n")
        write_atomically(self.path / "summary.json", "{}\n")
        write_atomically(self.path / "overrides.yaml", _yaml_list(overrides))
        write_atomically(self.path / "config.yaml", config)


def _yaml_list(items: Sequence[str]) -> str:
    # a JSON string is a YAML string, so no YAML library is needed to quote it
    return "".join(f"- {json.dumps(item, ensure_ascii=False)}\n" for item in items) or "[]\n"


def point(latest: Path, run: Path) -> None:
    """Make `latest` lead to `run`; a convenience, so it warns where it cannot."""
    try:
        target = os.path.relpath(run.resolve(), latest.parent.resolve())
        try:
            replace_by_link(latest, target)
        except (OSError, NotImplementedError):
            write_atomically(latest, f"{target}\n")
    except OSError as error:
        _LOG.warning("cannot update %s: %s", latest, error)
