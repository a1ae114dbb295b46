"""Where the time and the memory of an iteration went."""

from __future__ import annotations

import contextlib
import math
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

_MEBIBYTE = 1024.0 * 1024.0
_ASIDE = ("curriculum", "evaluate")  # sections that examine and collect nothing


class Monitor:
    """Named wall-clock sections and rates; on CUDA sections are events, read only in `pop`."""

    def __init__(
        self,
        *,
        device: torch.device | str,
        total_frames: int,
        start_frames: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._cuda = torch.device(device).type == "cuda"
        self._device = torch.device(device)
        self._total_frames = total_frames
        self._frames = self._start_frames = start_frames
        self._aside_s = 0.0  # of all iterations
        self._clock = clock
        self._since = clock()
        self._seconds: dict[str, float] = {}
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `time/<name>`."""
        if self._cuda:
            start, end = _event(), _event()
            start.record()
            try:
                yield
            finally:
                end.record()
                self._events.append((name, start, end))
            return
        began = self._clock()
        try:
            yield
        finally:
            self._add(name, self._clock() - began)

    def rates(self, frames: int) -> dict[str, float]:
        """Frames per second since the last `pop`, overall and while collecting, and the ETA.

        Examinations count in the ETA only: as much time for every frame as they have taken so far.
        """
        done = frames - self._frames
        aside_s = sum(self._seconds.get(name, 0.0) for name in _ASIDE)
        rates = {"time/fps": _per_second(done, self._clock() - self._since - aside_s)}
        if "collect" in self._seconds:
            rates["time/collect_fps"] = _per_second(done, self._seconds["collect"])
        left = max(0, self._total_frames - frames)
        examining_s = (self._aside_s + aside_s) * left / max(1, frames - self._start_frames)
        rates["time/eta_s"] = eta_s(left, rates["time/fps"]) + examining_s
        return rates

    def pop(self, frames: int) -> dict[str, float]:
        """Seconds, rates and memory since the last `pop`; `frames` counts from the run's start."""
        self._read_events()
        metrics = {f"time/{name}": seconds for name, seconds in self._seconds.items()}
        metrics |= {"time/iteration": self._clock() - self._since, **self.rates(frames)}
        metrics["memory/rss_mb"] = rss_mb()
        if self._cuda:
            metrics["memory/cuda_mb"] = torch.cuda.max_memory_allocated(self._device) / _MEBIBYTE
        self._aside_s += sum(self._seconds.get(name, 0.0) for name in _ASIDE)
        self._seconds.clear()
        self._frames, self._since = frames, self._clock()
        return metrics

    def _read_events(self) -> None:
        for name, start, end in self._events:
            end.synchronize()  # the only wait, once per iteration
            self._add(name, start.elapsed_time(end) / 1000.0)
        self._events.clear()

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds


def eta_s(frames_left: int, fps: float) -> float:
    """Seconds until `frames_left` are collected at `fps`; infinite when nothing moves."""
    if frames_left <= 0:
        return 0.0
    return frames_left / fps if fps > 0.0 else math.inf


def rss_mb() -> float:
    """Resident memory of this process in MiB; its peak where the system tells no more."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1]) / 1024.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / _MEBIBYTE if sys.platform == "darwin" else peak / 1024.0


def _per_second(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0.0 else 0.0


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
