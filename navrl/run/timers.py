"""Times and memory of an iteration: named sections, rates, the time left (ETA), and profiler traces."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from navrl.agents.fast.allocator import give_back_freed_memory
from navrl.contracts import Note

WINDOW = 100  # readings that percentiles are of
_MEBIBYTE = 1024.0 * 1024.0
_EVALUATING = ("curriculum", "evaluate")  # sections that collect nothing
_RATED = ("collect", "update")  # sections that every frame goes through


class Monitor:
    """The clock of the training loop: sections of an iteration, rates and memory."""

    def __init__(
        self,
        *,
        device: torch.device | str,
        total_frames: int,
        start_frames: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._device = torch.device(device)
        self._total_frames = total_frames
        self._frames = self._start_frames = start_frames
        self._evaluating_s = 0.0  # of all iterations
        self._clock = clock
        self._since = clock()
        self._sections = Sections(device, clock=clock)
        self.section = self._sections.section

    def pop(self, frames: int) -> dict[str, float]:
        """Return seconds, rates and memory since the last `pop`; `frames` counts from the run's start."""
        seconds = self._sections.read()
        metrics = {f"time/{name}": each for name, each in seconds.items()}
        metrics |= {"time/iteration": self._clock() - self._since, **self._rates(frames, seconds)}
        metrics |= memory(self._device)
        self._frames, self._since = frames, self._clock()
        return metrics

    def timed(self, rollouts: Iterable[TensorDictBase]) -> Iterator[TensorDictBase]:
        """Yield the rollouts of a collector and time them as the section "collect"."""
        iterator = iter(rollouts)
        while True:
            with self.section("collect"):
                rollout = next(iterator, None)
            if rollout is None:
                return
            yield rollout

    def summary(self) -> dict[str, float]:
        """Return the median and the 95th percentile of every section over the latest iterations."""
        return {
            f"time/{name}_{which}": seconds
            for name, spread in self._sections.spread().items()
            for which, seconds in spread._asdict().items()
        }

    def _rates(self, frames: int, seconds: dict[str, float]) -> dict[str, float]:
        """Return frames per second since the last `pop`, overall and by section, the share done and the ETA.

        Evaluations count in the ETA only: as much time per frame as they have taken so far.
        """
        done = frames - self._frames
        evaluating_s = sum(seconds.get(name, 0.0) for name in _EVALUATING)
        self._evaluating_s += evaluating_s
        fps = _per_second(done, self._clock() - self._since - evaluating_s)
        rates = {
            f"time/{name}_fps": _per_second(done, seconds[name])
            for name in _RATED
            if name in seconds
        }
        left = max(0, self._total_frames - frames)
        later_s = self._evaluating_s * left / max(1, frames - self._start_frames)
        progress = {
            "time/progress": frames / self._total_frames,
            "time/eta_s": eta_s(left, fps) + later_s,
        }
        return {"time/fps": fps, **rates, **progress}


def eta_s(frames_left: int, fps: float) -> float:
    """Return the seconds until `frames_left` are collected at `fps`; infinite if nothing moves."""
    if frames_left <= 0:
        return 0.0
    return frames_left / fps if fps > 0.0 else math.inf


def memory(device: torch.device) -> dict[str, float]:
    """Return the MiB that this process holds now, and the most it has held, on host and device."""
    now, peak = rss_mb()
    found = {"memory/rss_mb": now, "memory/rss_peak_mb": peak}
    if device.type == "cuda":
        found["memory/cuda_mb"] = torch.cuda.memory_allocated(device) / _MEBIBYTE
        found["memory/cuda_peak_mb"] = torch.cuda.max_memory_allocated(device) / _MEBIBYTE
    return found


def reset_peak(device: torch.device) -> None:
    """Count the peak of memory from now on, where the system can."""
    give_back_freed_memory()  # or what is held already would be the most that is ever held
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def available_mb(device: torch.device) -> float:
    """Return the MiB that this process holds or could get without swapping."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return (free + torch.cuda.memory_reserved(device)) / _MEBIBYTE
    with contextlib.suppress(OSError):
        found = _kilobytes("/proc/meminfo")
        if "MemAvailable" in found:
            return found["MemAvailable"] / 1024.0 + rss_mb()[0]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _MEBIBYTE


def rss_mb() -> tuple[float, float]:
    """Return the resident memory of this process in MiB, now and at its peak; the peak twice if in doubt."""
    with contextlib.suppress(OSError):
        found = _kilobytes("/proc/self/status")
        if "VmRSS" in found and "VmHWM" in found:
            return found["VmRSS"] / 1024.0, found["VmHWM"] / 1024.0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = most / (_MEBIBYTE if sys.platform == "darwin" else 1024.0)
    return peak, peak


def _kilobytes(file: str) -> dict[str, float]:
    """Return the lines of such a file that name an amount."""
    rows = (line.split() for line in Path(file).read_text(encoding="utf-8").splitlines())
    return {row[0].rstrip(":"): float(row[1]) for row in rows if row[-1] == "kB"}


def _per_second(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0.0 else 0.0


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
    """A torch.profiler trace of the third and fourth iteration: the first compiles, the second warms up."""

    def __init__(self, folder: Path, device: torch.device, note: Note) -> None:
        self._folder, self._note, self._written = folder, note, False
        # Else it writes to stderr that it starts and stops.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        cuda = [ProfilerActivity.CUDA] if device.type == "cuda" else []
        self._profile: Any = profile(
            activities=[ProfilerActivity.CPU, *cuda],
            schedule=schedule(skip_first=1, wait=0, warmup=1, active=2, repeat=1),
            on_trace_ready=self._write,
        )

    def __enter__(self) -> TraceProfiler:
        self._profile.start()
        return self

    def step(self) -> None:
        """Count an iteration."""
        self._profile.step()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._profile.stop()
        if not self._written:
            self._note("profile=true wrote nothing: it needs three iterations or more")

    def _write(self, found: Any) -> None:
        file, self._written = self._folder / "trace.json.gz", True
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            found.export_chrome_trace(str(file))
        except (OSError, RuntimeError) as error:  # a trace is not worth a training
            self._note(f"profile=true could not write {file}: {error}; training goes on")
            return
        self._note(
            f"wrote {file}, what happened in an iteration or two; open it in https://ui.perfetto.dev "
            "(it is read there in the browser and not sent anywhere) or in chrome://tracing"
        )


def profiler_for(
    wanted: bool, folder: Path, device: torch.device, note: Note
) -> TraceProfiler | NoProfiler:
    """Return the profiler that profile=... asks for."""
    return TraceProfiler(folder, device, note) if wanted else NoProfiler()
