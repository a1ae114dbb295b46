"""The status of a run, in status.json: running, finished, interrupted or failed, with the reason."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from navrl.config.signals import name_of, number_of
from navrl.storage.files import read_json, to_json, write_atomically

State = Literal["running", "finished", "interrupted", "failed"]


def write_status(path: Path, state: State, reason: str, frames: int) -> None:
    """Replace status.json in the run directory atomically."""
    status = {"state": state, "reason": reason, "frames": frames, "time": now(), "pid": os.getpid()}
    write_atomically(path / "status.json", to_json(status, indent=2) + "\n")


def read_status(path: Path) -> dict[str, Any]:
    """Return the status of the run in that folder, empty if it cannot be read."""
    try:
        status = read_json(path / "status.json")
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


def has_finished(path: Path) -> bool:
    """Return whether the run in that folder has finished, the final evaluation included."""
    return read_status(path).get("state") == "finished"


def status_after(error: BaseException) -> tuple[State, str]:
    """Return the state and the reason of a run that this error ended."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", name_of(number_of(error))
    if isinstance(error, SystemExit):
        return ("interrupted", f"exit code {error.code}") if error.code else ("finished", "")
    return "failed", f"{type(error).__name__}: {error}"


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
