"""What a logger is, and the one that does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class Logger:
    """A place metrics go to; this one, the base of all others, goes nowhere."""

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Record one iteration's metrics at `frames` frames since the run's start."""

    def late(self, metrics: Mapping[str, float], iteration: int, frames: int) -> None:
        """Record what has become known of an earlier iteration."""
        self.log(metrics, iteration=iteration, frames=frames)

    def summary(self, metrics: Mapping[str, float]) -> None:
        """Record the numbers the whole run is judged by."""

    def truncate_after(self, frames: int) -> None:
        """Forget what was logged beyond `frames`, because the run resumes from there."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must keep for this logger to continue; plain JSON values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue what `state_dict` described."""

    def close(self) -> None:
        """Flush and let go; harmless when called twice."""


class NullLogger(Logger):
    """No mirror (logger=none): metrics.jsonl and the console remain."""

    def __init__(self, *, directory: Path, name: str, config: Mapping[str, Any]) -> None:
        del directory, name, config  # every mirror is built with the same arguments


class MirrorFactory(Protocol):
    """A partial from conf/logger: what is left to give is known only once a run starts."""

    def __call__(self, *, directory: Path, name: str, config: Mapping[str, Any]) -> Logger:
        """The mirror of the run in `directory`."""
