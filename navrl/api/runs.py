"""navrl.Run: what a run has written, as plain data."""

from __future__ import annotations

import math
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from navrl.config.checks import ConfigError
from navrl.config.stored import parse_yaml
from navrl.loggers.jsonl import numbers, read_iterations
from navrl.run.status import read_status
from navrl.storage.checkpoint import verify_or_warn
from navrl.storage.files import read_json, read_text
from navrl.storage.find import OUTPUTS, find_place
from navrl.storage.info import checkpoint_files


class Checkpoint(NamedTuple):
    """An intact checkpoint of a run."""

    path: Path  # the file
    frames: int  # of training behind it
    stage: int  # of the curriculum
    score: float | None  # that `best` compares


class Run:
    """The directory of a run, by the name that commands take: latest, or its path."""

    def __init__(self, name: str | PathLike[str] = "latest") -> None:
        self.path = find_place(str(name), OUTPUTS)
        if not (self.path / "config.yaml").is_file():
            raise ConfigError(
                f"{self.path} holds no config.yaml; expected the directory of a run; name another"
            )

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.status.get('state', 'unknown')})"

    @cached_property
    def config(self) -> dict[str, Any]:
        """Return the configuration that the run was started with; references such as ${env.name} are kept."""
        path = self.path / "config.yaml"
        found: dict[str, Any] = parse_yaml(read_text(path), path)
        return found

    @property
    def status(self) -> dict[str, Any]:
        """Return the state (running, finished, interrupted or failed), its reason, and the frames so far."""
        return read_status(self.path)

    @property
    def summary(self) -> dict[str, float]:
        """Return the numbers that judge the whole run, such as those of the final evaluation."""
        path = self.path / "summary.json"
        found = read_json(path) if path.exists() else {}
        return numbers(found) if isinstance(found, dict) else {}

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """Return every metric as a column, with a row for each iteration; nan where it has no value."""
        rows = read_iterations(self.path / "metrics.jsonl")
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: np.array([row.get(name, math.nan) for row in rows]) for name in names}

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """Return the intact checkpoints, oldest first."""
        folder = self.path / "checkpoints"
        files = checkpoint_files(folder) if folder.is_dir() else []
        found = [(path, verify_or_warn(path)) for path in reversed(files)]
        return [Checkpoint(path, i.frames, i.stage, i.score) for path, i in found if i]
