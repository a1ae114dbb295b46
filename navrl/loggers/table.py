"""The metrics of a run as columns, which are read on as the run writes its metrics.jsonl."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from navrl.loggers.jsonl import (
    MOST_CELLS,
    MOST_LINE_BYTES,
    MOST_METRICS,
    is_name,
    numbers,
    parse_record,
)
from navrl.storage.files import open_regular

Column = NDArray[np.float64]

_CHUNK = 8 << 20  # bytes that are read at a time
_MARK = 256  # bytes before the place where reading went on, which a file that was cut has no longer
_PLACE = ("iteration", "frames")


class TooManyNumbers(ValueError):  # noqa: N818 (the name is clear without a suffix)
    """A file that holds more metrics, or more numbers, than are read."""


class Table(Sequence[dict[str, float]]):
    """One row for each iteration, in the order of frames; late metrics join the row of their iteration.

    A number that is missing is nan. As a sequence it holds the rows as dicts, without what is missing.
    """

    def __init__(self, most_cells: int = MOST_CELLS) -> None:
        self._most_cells = most_cells
        self._columns: dict[str, Column] = {name: np.empty(0) for name in _PLACE}
        self._places: dict[float, int] = {}  # of frames
        self._order: NDArray[np.int64] | None = (
            None  # of the rows, where they were added in another
        )

    def add(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Add records as they are parsed from the file."""
        new = [record for record in records if float(record["frames"]) not in self._places]
        first = {float(record["frames"]): record for record in reversed(new)}
        self._append([record for record in new if first[float(record["frames"])] is record])
        if len(first) < len(records):
            self._join(records)  # late metrics

    def _append(self, records: Sequence[Mapping[str, Any]]) -> None:
        begun = len(self._places)
        end = begun + len(records)
        names = dict.fromkeys(key for record in records for key in record if is_name(key))
        self._require_few({*self._columns, *names}, end)
        self._reserve(end)
        for name in names:
            values = _values(name, [record.get(name) for record in records])
            if name in self._columns or not np.isnan(values).all():
                self._column(name)[begun:end] = values
        self._places |= {float(record["frames"]): begun + at for at, record in enumerate(records)}
        self._order = None

    def _join(self, records: Sequence[Mapping[str, Any]]) -> None:
        for record in records:
            at = self._places[float(record["frames"])]
            for name, value in numbers(record).items():
                self._column(name)[at] = value

    def _column(self, name: str) -> Column:
        if name not in self._columns:
            self._columns[name] = np.full(len(self._columns["frames"]), np.nan)
        return self._columns[name]

    def _reserve(self, rows: int) -> None:
        """Make room for so many rows, and for as many again, so that adding one takes no copy."""
        room = len(self._columns["frames"])
        if rows > room:
            more = np.full(max(rows, 2 * room, 64) - room, np.nan)
            self._columns = {name: np.concatenate([at, more]) for name, at in self._columns.items()}

    def _require_few(self, names: Any, rows: int) -> None:
        if len(names) > MOST_METRICS or len(names) * rows > self._most_cells:
            raise TooManyNumbers(
                f"{len(names):,} metrics in {rows:,} iterations; expected at most {MOST_METRICS:,} metrics "
                f"and {self._most_cells:,} numbers in all"
            )

    @property
    def names(self) -> list[str]:
        """Return the metrics, iteration and frames among them, in the order in which they were logged."""
        return [*self._columns]

    @property
    def frames(self) -> Column:
        """Return the frames of the rows."""
        return self.column("frames")

    @property
    def cells(self) -> int:
        """Return how many numbers there is room for."""
        return len(self._columns) * len(self._columns["frames"])

    def column(self, name: str) -> Column:
        """Return a metric of every row, nan where it is missing."""
        found = self._columns.get(name)
        if found is None:
            return np.full(len(self), np.nan)
        found = found[: len(self)]
        return found if self._sorted() is None else found[self._sorted()]

    def _sorted(self) -> NDArray[np.int64] | None:
        """Return the order of the rows by frames, None if they lie in it."""
        if self._order is None:
            frames = self._columns["frames"][: len(self)]
            self._order = np.empty(0, np.int64) if (np.diff(frames) > 0).all() else frames.argsort()
        return self._order if len(self._order) else None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> dict[str, float]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, float]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, float] | list[dict[str, float]]:
        """Return one row, or several."""
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        columns = {name: self.column(name)[at] for name in self._columns}
        return {name: float(value) for name, value in columns.items() if not np.isnan(value)}


def _values(name: str, found: Sequence[Any]) -> Column:
    """Return numbers as a column, nan for what is none."""
    if not {type(value) for value in found} <= {int, float, type(None)}:
        found = [numbers({name: value}).get(name) for value in found]
    try:
        values = np.array(found, dtype=np.float64)
    except OverflowError:
        values = np.array([numbers({name: value})[name] for value in found])
    values[~np.isfinite(values)] = np.nan
    return values


class Follower:
    """A reader of a metrics.jsonl that reads what is new, each time it is asked."""

    def __init__(self, path: Path, most_cells: int = MOST_CELLS) -> None:
        self.path = path
        self._most_cells = most_cells
        self._restart()

    def _restart(self) -> None:
        self.table = Table(self._most_cells)
        self._file = 0  # its number in the file system
        self._seen = (0, 0, 0)
        self._end = 0  # of the last whole line that was read
        self._mark = b""

    def read_on(self) -> bool:
        """Read what is new; return whether something was. A file that was cut is read from its beginning."""
        try:
            descriptor = open_regular(self.path, os.O_RDONLY)
        except FileNotFoundError:
            found = len(self.table) > 0
            self._restart()
            return found
        with open(descriptor, "rb", buffering=0):
            status = os.fstat(descriptor)
            seen = (status.st_ino, status.st_size, status.st_mtime_ns)
            if seen == self._seen:
                return False
            self._seen = seen
            cut = status.st_ino != self._file or status.st_size < self._end
            if (
                cut
                or os.pread(descriptor, len(self._mark), self._end - len(self._mark)) != self._mark
            ):
                self._restart()
                cut, self._seen = True, seen
            self._file = status.st_ino
            before = self._end
            for lines in self._chunks(descriptor):
                records = [record for line in lines if (record := parse_record(line)) is not None]
                self.table.add(records)
            self._mark = os.pread(descriptor, min(_MARK, self._end), max(self._end - _MARK, 0))
        return cut or self._end != before

    def _chunks(self, descriptor: int) -> Iterator[list[bytes]]:
        """Yield the whole lines from where reading stopped, but for those too long for a record."""
        size = _CHUNK
        while chunk := os.pread(descriptor, size, self._end):
            whole = chunk.rfind(b"\n") + 1
            if whole == 0 and len(chunk) < size:
                return  # a line that is being written
            if whole == 0:
                whole = _past_line(descriptor, self._end)
                if whole == 0:
                    return
                self._end += whole
                continue
            self._end += whole
            lines = chunk[: whole - 1].split(b"\n")
            yield [line for line in lines if len(line) < MOST_LINE_BYTES]


def _past_line(descriptor: int, start: int) -> int:
    """Return the bytes up to the end of the line that begins at `start`, 0 if it does not end."""
    at = start
    while chunk := os.pread(descriptor, _CHUNK, at):
        end = chunk.find(b"\n")
        if end >= 0:
            return at + end + 1 - start
        at += len(chunk)
    return 0
