"""Where the time and the memory of an iteration went."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from navrl.agents.fast.allocator import give_back_freed_memory
from navrl.run.sections import Sections

_MEBIBYTE = 1024.0 * 1024.0
_ASIDE = ("curriculum", "evaluate")  # sections that examine and collect nothing
_RATED = ("collect", "update")  # sections that every frame goes through


class Monitor:
    """Sections of an iteration, rates and memory."""

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
        self._aside_s = 0.0  # of all iterations
        self._clock = clock
        self._since = clock()
        self._sections = Sections(device, clock=clock)
        self.section = self._sections.section

    def pop(self, frames: int) -> dict[str, float]:
        """Seconds, rates and memory since the last `pop`; `frames` counts from the run's start."""
        seconds = self._sections.read()
        metrics = {f"time/{name}": each for name, each in seconds.items()}
        metrics |= {"time/iteration": self._clock() - self._since, **self._rates(frames, seconds)}
        metrics |= memory(self._device)
        self._frames, self._since = frames, self._clock()
        return metrics

    def summary(self) -> dict[str, float]:
        """Median and 95th percentile of every section over the latest iterations."""
        return {
            f"time/{name}_{which}": seconds
            for name, spread in self._sections.spread().items()
            for which, seconds in spread._asdict().items()
        }

    def _rates(self, frames: int, seconds: dict[str, float]) -> dict[str, float]:
        """Frames per second since the last `pop`, overall and of the main sections, the share done, the ETA.

        Examinations count in the ETA only: as much time for every frame as they have taken so far.
        """
        done = frames - self._frames
        aside_s = sum(seconds.get(name, 0.0) for name in _ASIDE)
        self._aside_s += aside_s
        fps = _per_second(done, self._clock() - self._since - aside_s)
        rates = {
            f"time/{name}_fps": _per_second(done, seconds[name])
            for name in _RATED
            if name in seconds
        }
        left = max(0, self._total_frames - frames)
        examining_s = self._aside_s * left / max(1, frames - self._start_frames)
        progress = {
            "time/progress": frames / self._total_frames,
            "time/eta_s": eta_s(left, fps) + examining_s,
        }
        return {"time/fps": fps, **rates, **progress}


def eta_s(frames_left: int, fps: float) -> float:
    """Seconds until `frames_left` are collected at `fps`; infinite when nothing moves."""
    if frames_left <= 0:
        return 0.0
    return frames_left / fps if fps > 0.0 else math.inf


def memory(device: torch.device) -> dict[str, float]:
    """MiB that this process holds now, and the most that it has held, on the host and on the device."""
    now, peak = rss_mb()
    found = {"memory/rss_mb": now, "memory/rss_peak_mb": peak}
    if device.type == "cuda":
        found["memory/cuda_mb"] = torch.cuda.memory_allocated(device) / _MEBIBYTE
        found["memory/cuda_peak_mb"] = torch.cuda.max_memory_allocated(device) / _MEBIBYTE
    return found


def reset_peak(device: torch.device) -> None:
    """Let the most memory held be counted from now on, where the system can."""
    give_back_freed_memory()  # or what is held already would be the most that is ever held
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def available_mb(device: torch.device) -> float:
    """MiB that this process holds or could get without anybody swapping."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return (free + torch.cuda.memory_reserved(device)) / _MEBIBYTE
    with contextlib.suppress(OSError):
        found = _kilobytes("/proc/meminfo")
        if "MemAvailable" in found:
            return found["MemAvailable"] / 1024.0 + rss_mb()[0]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _MEBIBYTE


def rss_mb() -> tuple[float, float]:
    """Resident memory of this process in MiB, now and at most; the latter twice where no more is known."""
    with contextlib.suppress(OSError):
        found = _kilobytes("/proc/self/status")
        if "VmRSS" in found and "VmHWM" in found:
            return found["VmRSS"] / 1024.0, found["VmHWM"] / 1024.0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = most / (_MEBIBYTE if sys.platform == "darwin" else 1024.0)
    return peak, peak


def _kilobytes(file: str) -> dict[str, float]:
    """The lines of such a file that name an amount."""
    rows = (line.split() for line in Path(file).read_text(encoding="utf-8").splitlines())
    return {row[0].rstrip(":"): float(row[1]) for row in rows if row[-1] == "kB"}


def _per_second(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0.0 else 0.0
