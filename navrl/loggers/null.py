"""The logger that does nothing, and the base class of the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Kinds of files about a run, beside its checkpoints `latest` and `best`.
REPLAY, PICTURE = "replay", "picture"


class NullLogger:
    """A logger without output (logger=none): metrics.jsonl and the console remain.

    Loggers inherit the methods in which they have nothing to do.
    """

    wants: frozenset[str] = frozenset()  # kinds of files that are given to `attach` in the end

    def __init__(self, *, directory: Path, name: str, config: Mapping[str, Any]) -> None:
        del directory, name, config  # every mirror receives the same arguments

    @staticmethod
    def check(**options: Any) -> None:
        """Raise about a wrong option or a missing package, before a run writes anything."""

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Ignore the metrics of one iteration."""

    def late(self, metrics: Mapping[str, float], iteration: int, frames: int) -> None:
        """Log metrics of an earlier iteration like any others."""
        self.log(metrics, iteration=iteration, frames=frames)

    def attach(self, kind: str, path: Path, *, frames: int) -> None:
        """Ignore a file of the run, of one of the kinds in `wants`."""

    def summary(self, metrics: Mapping[str, float]) -> None:
        """Ignore the numbers that judge the whole run."""

    def truncate_after(self, frames: int) -> None:
        """Remove nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Return no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore nothing."""

    def close(self) -> None:
        """Close nothing."""
