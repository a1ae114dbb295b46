"""Timers of named sections, and profiler traces."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from navrl.contracts import Note
from navrl.storage.files import make_directory, replacing

WINDOW = 100  # readings that percentiles are of


class Spread(NamedTuple):
    """The spread of the latest readings of a section, in seconds."""

    p50: float
    p95: float


class Sections:
    """A timer of named sections, by events on CUDA, where nothing waits before `read`."""

    def __init__(
        self,
        device: torch.device | str,
        *,
        window: int = WINDOW,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._cuda = torch.device(device).type == "cuda"
        self._clock, self._window = clock, window
        self._seconds: dict[str, float] = {}  # since the last reading
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
        self._readings: dict[str, deque[float]] = {}  # the oldest makes room for the newest

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Add the time spent inside, also if it raises; a torch.profiler sees the name too."""
        if self._cuda:
            start, end = _event(), _event()
            start.record()
        began = self._clock()
        try:
            with record_function(name):
                yield
        finally:
            if self._cuda:
                end.record()
                self._events.append((name, start, end))
            else:
                self._add(name, self._clock() - began)

    def read(self) -> dict[str, float]:
        """Return the seconds of every section since the last reading, and add them to its window."""
        for name, start, end in self._events:
            end.synchronize()  # the only wait
            self._add(name, start.elapsed_time(end) / 1000.0)
        self._events.clear()
        found, self._seconds = self._seconds, {}
        for name, seconds in found.items():
            self._readings.setdefault(name, deque(maxlen=self._window)).append(seconds)
        return found

    def spread(self) -> dict[str, Spread]:
        """Return the median and the 95th percentile of every section."""
        return {
            name: Spread(statistics.median(readings), _percentile(sorted(readings), 0.95))
            for name, readings in self._readings.items()
        }

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds


def _percentile(ordered: list[float], share: float) -> float:
    """Return the smallest reading that is not less than this share of them."""
    return ordered[math.ceil(share * len(ordered)) - 1]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


class NoProfiler(AbstractContextManager["NoProfiler"]):
    """The profiler of profile=false, which does nothing."""

    def step(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class TraceProfiler:
    """A torch.profiler trace of two iterations, after those that are unsettled and one that warms up."""

    def __init__(self, folder: Path, device: torch.device, note: Note, unsettled: int = 1) -> None:
        self._folder, self._note, self._written = folder, note, False
        self._needed = unsettled + 2
        # Else it writes to stderr that it starts and stops.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        cuda = [ProfilerActivity.CUDA] if device.type == "cuda" else []
        self._profile: Any = profile(
            activities=[ProfilerActivity.CPU, *cuda],
            schedule=schedule(skip_first=unsettled, wait=0, warmup=1, active=2, repeat=1),
            on_trace_ready=self._write,
        )

    def __enter__(self) -> TraceProfiler:
        self._profile.start()
        return self

    def step(self) -> None:
        """Count an iteration."""
        self._profile.step()

    def __exit__(self, *_: object) -> None:
        self._profile.stop()
        if not self._written:
            self._note(f"profile=true wrote nothing: it needs {self._needed} iterations or more")

    def _write(self, found: Any) -> None:
        file, self._written = self._folder / "trace.json.gz", True
        try:
            make_directory(self._folder)
            with replacing(file) as temporary:
                found.export_chrome_trace(str(temporary))
        except (OSError, RuntimeError) as error:  # a trace is not worth a training
            self._note(f"profile=true could not write {file}: {error}; training goes on")
            return
        self._note(
            f"wrote {file}, what happened in an iteration or two; open it in https://ui.perfetto.dev "
            "(it is read there in the browser and not sent anywhere) or in chrome://tracing"
        )


def profiler_for(
    wanted: bool, folder: Path, device: torch.device, note: Note, unsettled: int = 1
) -> TraceProfiler | NoProfiler:
    """Return the profiler that profile=... asks for."""
    return TraceProfiler(folder, device, note, unsettled) if wanted else NoProfiler()
