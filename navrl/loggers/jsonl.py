"""metrics.jsonl: the record of a run that every other logger mirrors and every page reads."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from navrl.config.checks import ConfigError
from navrl.loggers.null import NullLogger
from navrl.storage.files import is_at, open_regular, parse_json, to_json, write_atomically

_LOG = logging.getLogger(__name__)
MOST_LINE_BYTES = 1 << 20  # a record has some kB
# Bytes from the end that hold the last records; the second time a record of any size.
_LAST_PARTS = (128 << 10, 2 * MOST_LINE_BYTES)
_SAMPLE_PART = 64 << 10
_MOST_NAME = 200  # characters
_MOST_FRAMES = 10**18  # as of a checkpoint
# Of a run; a table has a cell for every metric in every iteration.
MOST_METRICS, MOST_CELLS = 4096, 20_000_000


class JsonlLogger(NullLogger):
    """A file with one JSON object per line and one write per record: a crash tears at most the last line.

    Numbers that JSON cannot hold are null. Records that a full disk refuses wait in memory and are written
    with the next record that fits.
    """

    def __init__(self, *, directory: Path) -> None:
        self.path = directory / "metrics.jsonl"
        self._summary = directory / "summary.json"
        self._file = open_regular(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._waiting = b""
        self._keep_until(None)

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Append one record and hand it to the system before returning."""
        record = {"iteration": iteration, "frames": frames, **metrics}
        self._waiting += to_json(record).encode() + b"\n"
        self._restore()
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

    def _restore(self) -> None:
        """Write the file anew, with all its rows, if it was deleted or replaced."""
        if is_at(self.path, self._file):
            return
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"the folder {self.path.parent} is gone; the next checkpoint makes it again, and the records "
                "wait for it"
            )
        with open(self._file, "rb", closefd=False) as deleted:
            deleted.seek(0)
            write_atomically(self.path, deleted.read())
        restored = open_regular(self.path, os.O_RDWR | os.O_APPEND)
        os.close(self._file)
        self._file = restored
        _LOG.warning(
            "%s was deleted or replaced while the run went on; it is written anew", self.path
        )

    def _drain(self) -> None:
        """Write all waiting records in one piece, or leave the file as it was and raise."""
        if not self._waiting:
            return
        size = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, self._waiting)
            if written < len(self._waiting):  # the disk filled up within the record
                raise OSError(f"{written} of {len(self._waiting)} bytes fitted in {self.path}")
        except OSError:
            os.ftruncate(self._file, size)
            raise
        self._waiting = b""

    def _keep_until(self, frames: int | None) -> None:
        """Cut the file after the first whole row of `frames`, or before the first one beyond.

        Rows after it were late metrics, which the resumed run computes again.
        """
        end = position = 0
        with open(self._file, "rb", closefd=False) as file:
            file.seek(0)
            for length, line in _lines(file):
                position += length
                row = _parse(line)
                if row is not None and frames is not None and row["frames"] > frames:
                    break
                end = position if row is not None else end
                if row is not None and row["frames"] == frames:
                    break
        os.ftruncate(self._file, end)


def read_metrics(path: Path) -> Iterator[dict[str, float]]:
    """Yield the records of a metrics.jsonl, also while it is written: a torn line is skipped.

    So is every line that is no record, and in a record what is no number or has a name that no metric has.
    A null becomes nan, and so does a number that a float cannot hold.
    """
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        for _, line in _lines(file):
            row = _parse(line)
            if row is not None:
                yield numbers(row)


def read_iterations(path: Path) -> list[dict[str, float]]:
    """Return one record for every iteration, in their order: late metrics have lines of their own."""
    rows: dict[float, dict[str, float]] = {}
    metrics: set[str] = set()
    for row in read_metrics(path):
        rows.setdefault(row["frames"], {}).update(row)
        metrics |= row.keys()
        if len(metrics) > MOST_METRICS or len(metrics) * len(rows) > MOST_CELLS:
            raise ConfigError(
                f"{path} holds {len(metrics):,} metrics in {len(rows):,} iterations; expected at most "
                f"{MOST_METRICS:,} metrics and {MOST_CELLS:,} numbers in all; leave this run out"
            )
    return [rows[frames] for frames in sorted(rows)]


def read_last(path: Path) -> dict[str, float]:
    """Return the last value of every metric in the last records, however long the file is."""
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        for part in _LAST_PARTS:
            file.seek(max(0, size - part))
            rows = [row for _, line in _lines(file) if (row := _parse(line)) is not None]
            if rows or part >= size:
                break
    newest: dict[str, Any] = {}
    for row in reversed(rows):
        newest |= {
            key: value for key, value in row.items() if value is not None and key not in newest
        }
    found = {key: value for key, value in numbers(newest).items() if not math.isnan(value)}
    frames = max((row["frames"] for row in rows), default=0)  # of late metrics they are fewer
    return {**found, "frames": frames} if rows else {}


def read_sample(path: Path, most: int) -> list[dict[str, float]]:
    """Return records at equal distances of the file, each with the evaluation before it if that is near.

    The time this takes does not depend on the length of the file.
    """
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        found = []
        for at in range(1, most + 1):
            end = size * at // most
            start = max(0, end - _SAMPLE_PART)
            file.seek(start)
            found.append(_newest(file.read(end - start), whole=start == 0))
    return [row for row in found if row]


def _newest(part: bytes, *, whole: bool) -> dict[str, float]:
    """Return the last whole record of a part of a file, and before it the last evaluation in that part."""
    lines = part.split(b"\n")[0 if whole else 1 : -1]
    evaluated = next((line for line in reversed(lines[:-1]) if b'"eval/' in line), b"")
    rows = [row for line in (evaluated, *lines[-1:]) if (row := parse_record(line)) is not None]
    return numbers({key: value for row in rows for key, value in row.items()})


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a record by name, nan for a null; leave out what no logger has written."""
    return {
        key: _number(value)
        for key, value in row.items()
        if (value is None or type(value) in (int, float)) and is_name(key)
    }


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield length and content of every line; a line that is too long for a record has no content."""
    while line := file.readline(MOST_LINE_BYTES):
        length, part = len(line), line
        while part and not part.endswith(b"\n"):  # too long, or the last one
            part = file.readline(MOST_LINE_BYTES)
            length += len(part)
        yield length, line if length == len(line) else b""


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the record on a whole line, None for a torn or foreign one."""
    return parse_record(line) if line.endswith(b"\n") else None


def parse_record(line: bytes) -> dict[str, Any] | None:
    """Return the record in a line as it was parsed, None for a foreign line."""
    try:
        row = parse_json(line)
    except ValueError:  # also what broken UTF-8 raises
        return None
    if not isinstance(row, dict):
        return None
    place = (row.get("iteration"), row.get("frames"))
    return row if all(type(at) is int and 0 <= at < _MOST_FRAMES for at in place) else None


def is_name(key: str) -> bool:
    """Return whether a metric may be called so."""
    return len(key) <= _MOST_NAME and key.isprintable()


def _number(value: float | None) -> float:
    try:
        return value if value is not None and math.isfinite(value) else math.nan
    except OverflowError:  # an int of more than 308 digits
        return math.nan
