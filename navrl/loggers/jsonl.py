"""metrics.jsonl: the record of a run that every other logger mirrors and every page reads."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from navrl.loggers.null import NullLogger
from navrl.storage.files import to_json, write_atomically


class JsonlLogger(NullLogger):
    """A file with one JSON object per line and one write per record: a crash tears at most the last line.

    Numbers that JSON cannot hold are null. Records that a full disk refuses wait in memory and are written
    with the next record that fits.
    """

    def __init__(self, *, directory: Path) -> None:
        self.path = directory / "metrics.jsonl"
        self._summary = directory / "summary.json"
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._waiting = b""
        self._size = 0
        self._keep_until(None)

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Append one record and hand it to the system before returning."""
        record = {"iteration": iteration, "frames": frames, **metrics}
        self._waiting += to_json(record).encode() + b"\n"
        self._drain()

    def summary(self, metrics: Mapping[str, float]) -> None:
        """Replace summary.json atomically."""
        write_atomically(self._summary, to_json(dict(metrics), indent=2) + "\n")

    def truncate_after(self, frames: int) -> None:
        """Drop rows beyond `frames`, so that a resumed run repeats none and misses none."""
        self._waiting = b""
        self._keep_until(frames)

    def close(self) -> None:
        """Write the records that a full disk refused, if they fit now, and close the file."""
        if self._file < 0:
            return
        try:
            self._drain()
        finally:
            os.close(self._file)
            self._file = -1

    def _drain(self) -> None:
        """Write all waiting records in one piece, or leave the file as it was and raise."""
        if not self._waiting:
            return
        try:
            written = os.write(self._file, self._waiting)
            if written < len(self._waiting):  # the disk filled up within the record
                raise OSError(f"{written} of {len(self._waiting)} bytes fitted in {self.path}")
        except OSError:
            self._cut(self._size)
            raise
        self._size += written
        self._waiting = b""

    def _keep_until(self, frames: int | None) -> None:
        """Cut the file after the first whole row of `frames`, or before the first one beyond.

        Rows after it were late metrics, which the resumed run computes again.
        """
        end = 0
        with self.path.open("rb") as file:
            for line in file:
                row = _parse(line)
                if row is not None and frames is not None and row["frames"] > frames:
                    break
                end = file.tell() if row is not None else end
                if row is not None and row["frames"] == frames:
                    break
        self._cut(end)
        self._size = end

    def _cut(self, size: int) -> None:
        with contextlib.suppress(OSError):  # a device such as /dev/full cannot be cut
            os.ftruncate(self._file, size)


def read_metrics(path: Path) -> Iterator[dict[str, float]]:
    """Yield the records of a metrics.jsonl, also while it is written: a torn line is skipped.

    A null becomes nan.
    """
    with path.open("rb") as file:
        for line in file:
            row = _parse(line)
            if row is not None:
                yield {key: _number(value) for key, value in row.items() if _is_number(value)}


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the record on a whole line, None for a torn or foreign one."""
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line)
    except ValueError:  # also what broken UTF-8 raises
        return None
    return row if isinstance(row, dict) and isinstance(row.get("frames"), int) else None


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
