"""The runs below some folders, followed while they are written: nothing is locked, nothing is written."""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from navrl.config.checks import ConfigError, printable
from navrl.loggers.jsonl import read_sample
from navrl.loggers.table import Follower, Table, TooManyNumbers
from navrl.run.lock import is_held, is_locked, listed_locks
from navrl.run.stored_runs import OF_RUNS, StoredRun, read_description, short_names
from navrl.storage.files import UnsafePath

MOST_RUNS = 2000
MOST_CELLS = 6_000_000  # numbers of one run: 48 MB
_MOST_KEPT_CELLS = 12_000_000  # of all runs whose curves were looked at
_LEVELS = 5  # of folders above a run
_SMALL = ("config.yaml", "overrides.yaml", "status.json", "summary.json", "notes.json")
_SPARK = 32  # points of a sparkline
_LONGEST = 300  # characters of a sentence about a failure

Signature = tuple[Any, ...]

_versions = itertools.count(1)  # no two states of runs have the same, though a folder is made again


class LiveRun:
    """One run: its small files and the end of its metrics, read again when they have changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:12]
        self.stored: StoredRun | None = None
        self.fault = ""  # a sentence, if its files cannot be read
        self.state = "unknown"
        self.version = 0  # another one after each change
        self.spark_due = False
        self._small: Signature = ()
        self._log: Signature = ()
        self._spark: list[float | None] = []
        self._follower: Follower | None = None

    def look(self, locks: Mapping[tuple[int, int], int] | None) -> bool:
        """Read what has changed; return whether anything has."""
        small = tuple(_signature(self.path / name) for name in _SMALL)
        log = _signature(self.path / "metrics.jsonl")
        if small != self._small or log != self._log:
            self._read(described=small == self._small, logged=log == self._log)
            self._small, self._log = small, log
            changed = True
        else:
            changed = False
        state = self._state(locks)
        if self.stored is not None:
            vars(self.stored)["state"] = state  # StoredRun would lock the run to know
        if state != self.state:
            self.state, changed = state, True
        if changed:
            self.version = next(_versions)
        return changed

    def _read(self, *, described: bool, logged: bool) -> None:
        """Read the files again, but for those that are as they were."""
        before = self.stored
        try:
            known = described and before is not None
            stored = StoredRun(before.found if known and before else read_description(self.path))
            if logged and before is not None and "last" in vars(before):
                vars(stored)["last"] = before.last
            _ = stored.metrics, stored.notes  # what is wrong with them is known now
            self.stored, self.fault = stored, ""
            self.spark_due |= not logged
        except (OSError, ConfigError) as error:
            self.stored, self.fault = None, printable(error)[:_LONGEST]

    def _state(self, locks: Mapping[tuple[int, int], int] | None) -> str:
        """Return the state; waiting: its process has not ended an iteration, as while it compiles."""
        if self.stored is None:
            return "unreadable"
        if self.stored.found.state in ("finished", "interrupted", "failed"):
            return self.stored.found.state
        alive = is_locked(self.path) if locks is None else is_held(self.path, locks)
        if not alive:
            return "stale"
        return "running" if self._log else "waiting"

    @property
    def frames(self) -> int:
        """Return the frames so far."""
        return (
            0
            if self.stored is None
            else max(self.stored.frames, int(self.stored.last.get("frames", 0)))
        )

    @property
    def reason(self) -> str:
        """Return why the run has ended."""
        if self.stored is None:
            return self.fault
        return printable(str(self.stored.found.status.get("reason", "")))[:_LONGEST]

    def row(self, name: str) -> dict[str, Any]:
        """Return what the list shows of the run."""
        if self.stored is None:
            return {"id": self.id, "name": name, "state": self.state, "reason": self.reason}
        stored, found = self.stored, self.stored.found
        objective = stored.objective
        changed = stored.changed
        return {
            "id": self.id,
            "name": name,
            "env": found.env,
            "agent": found.agent,
            "seed": found.seed,
            "state": self.state,
            "reason": self.reason,
            "frames": self.frames,
            "total": stored.total_frames,
            "eta_s": _finite(stored.metrics.get("time/eta_s")) if self.state == "running" else None,
            "fps": _finite(stored.metrics.get("time/fps", stored.metrics.get("time/fps_p50"))),
            "objective": None
            if objective is None
            else [
                found.objective,
                *map(_finite, (objective.value, objective.low, objective.high)),
                objective.source,
            ],
            "spark": self._spark,
            "time": None if changed is None else changed.timestamp(),
            "tags": [*stored.notes.tags],
            "note": stored.notes.note,
        }

    def table(self) -> Table:
        """Return the metrics, read up to now; raise ConfigError if there are too many."""
        if self._follower is None:
            self._follower = Follower(self.path / "metrics.jsonl", MOST_CELLS)
        try:
            self._follower.read_on()
        except (TooManyNumbers, OSError) as error:
            self._follower = None
            raise ConfigError(f"{self.path}: {printable(error)}") from error
        return self._follower.table

    def draw_spark(self) -> None:
        """Read the sparkline."""
        if self.stored is not None:
            self._spark = _sparkline(self.path / "metrics.jsonl", self.stored.found.objective)
        self.spark_due = False

    @property
    def cells(self) -> int:
        """Return how many numbers are kept in memory."""
        return 0 if self._follower is None else self._follower.table.cells

    def forget(self) -> None:
        """Drop the metrics; they are read again when they are asked for."""
        self._follower = None


class Change(NamedTuple):
    """The rows that have changed, and the runs that are gone."""

    rows: list[dict[str, Any]]
    gone: list[str]


class Catalogue:
    """All runs at or below the places, newest first; for several threads."""

    def __init__(self, places: Sequence[Path]) -> None:
        self._places = places
        self._runs: dict[Path, LiveRun] = {}
        self._names: dict[Path, str] = {}
        self._recent: list[str] = []  # runs whose curves were looked at, the last one at the end
        self._lock = threading.RLock()
        self._reading = threading.Lock()  # of curves, which may take seconds

    def scan(self) -> Change:
        """Find new runs, and look at all of them again."""
        paths = list(dict.fromkeys(itertools.islice(_found(self._places), MOST_RUNS)))
        with self._lock:
            known, found = set(self._runs), set(paths)
            gone = [self._runs.pop(path).id for path in known - found]
            new = [path for path in paths if path not in known]
            self._runs |= {path: LiveRun(path) for path in new}
            if new or gone:
                self._names = dict(zip(paths, short_names(paths) if paths else [], strict=True))
            changed = self._look(self._runs.values())
            return Change([self.row(run) for run in changed], gone)

    def look(self) -> Change:
        """Look again at the runs that are written, or have been a moment ago."""
        with self._lock:
            live = [
                run for run in self._runs.values() if run.state in ("running", "waiting", "stale")
            ]
            return Change([self.row(run) for run in self._look(live)], [])

    def draw(self, most: int) -> Change:
        """Read sparklines of so many runs whose metrics have changed."""
        with self._lock:
            due = [run for run in self._runs.values() if run.spark_due][:most]
            for run in due:
                run.draw_spark()
            return Change([self.row(run) for run in due], [])

    def _look(self, runs: Any) -> list[LiveRun]:
        locks = listed_locks()
        return [run for run in runs if run.look(locks)]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all runs."""
        with self._lock:
            return [self.row(run) for run in self._runs.values()]

    def row(self, run: LiveRun) -> dict[str, Any]:
        """Return the row of a run."""
        with self._lock:
            return run.row(printable(self._names.get(run.path, str(run.path))))

    def get(self, ids: Sequence[str]) -> list[LiveRun]:
        """Return the runs with these ids; raise KeyError about one that is not there."""
        with self._lock:
            known = {run.id: run for run in self._runs.values()}
            return [known[id] for id in ids]

    def using(self, runs: Sequence[LiveRun], read: Callable[[], Any]) -> Any:
        """Return read(), which reads tables of these runs, and drop tables of runs not used lately."""
        with self._reading:
            ids = [run.id for run in runs]
            self._recent = [id for id in self._recent if id not in ids] + ids
            found = read()
            with self._lock:
                known = {run.id: run for run in self._runs.values()}
            cells = 0
            for id in reversed(self._recent):
                if id in known and (cells := cells + known[id].cells) > _MOST_KEPT_CELLS:
                    known[id].forget()
            self._recent = [id for id in self._recent if id in known]
            return found


def _signature(path: Path) -> Signature:
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _found(places: Sequence[Path]) -> Iterator[Path]:
    """Yield the runs at or below the places, those in folders of a later name first; follow no link below."""
    for place in places:
        if place.is_dir():
            yield from _below(place, _LEVELS)


def _below(folder: Path, levels: int) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return
    if any(_is_file(folder / name) for name in OF_RUNS if name in names):
        yield folder
    elif levels > 0:
        for name in sorted((name for name, is_folder in names.items() if is_folder), reverse=True):
            yield from _below(folder / name, levels - 1)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _sparkline(log: Path, objective: str) -> list[float | None]:
    """Return the objective at equal distances of the file: the held-out one where there is one."""
    try:
        rows = read_sample(log, _SPARK)
    except (OSError, UnsafePath):
        return []
    for name in (f"eval/{objective}", f"episode/{objective}"):
        found = [_finite(row.get(name)) for row in rows]
        if sum(value is not None for value in found) > 2:
            return found
    return []


def _finite(value: Any) -> float | None:
    """Return a number with four digits, None for nan."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{value:.4g}")
