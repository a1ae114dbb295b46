"""Memory of this process, on host and device: held now, held at most, and available."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path

import torch

from navrl.agents.fast.allocator import give_back_freed_memory

_MEBIBYTE = 1024.0 * 1024.0


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
