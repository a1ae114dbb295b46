"""Named sections of a program and the time they take, by events on CUDA and the host's clock elsewhere."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch.profiler import record_function

WINDOW = 100  # readings that percentiles are of


class Spread(NamedTuple):
    """Of the latest readings of a section, in seconds."""

    p50: float
    p95: float


class Sections:
    """Times what is inside `section(name)`; on CUDA nothing waits before `read`."""

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
        """Seconds of every section since the last reading; the sum becomes one entry of its window."""
        for name, start, end in self._events:
            end.synchronize()  # the only wait
            self._add(name, start.elapsed_time(end) / 1000.0)
        self._events.clear()
        found, self._seconds = self._seconds, {}
        for name, seconds in found.items():
            self._readings.setdefault(name, deque(maxlen=self._window)).append(seconds)
        return found

    def spread(self) -> dict[str, Spread]:
        """Median and 95th percentile of every section."""
        return {
            name: Spread(statistics.median(readings), _percentile(sorted(readings), 0.95))
            for name, readings in self._readings.items()
        }

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds


def _percentile(ordered: list[float], share: float) -> float:
    """The smallest that is not less than this share of them."""
    return ordered[math.ceil(share * len(ordered)) - 1]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
