"""profile=true: a torch.profiler trace of two iterations of a training."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule


class NoProfiler(AbstractContextManager["NoProfiler"]):
    """Looks at nothing."""

    def step(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class TraceProfiler:
    """Writes what happens in the third and fourth iteration: the first compiles, the second warms up."""

    def __init__(self, folder: Path, device: torch.device, note: Callable[[str], None]) -> None:
        self._folder, self._note, self._written = folder, note, False
        os.environ.setdefault(
            "KINETO_LOG_LEVEL", "99"
        )  # else it tells stderr that it starts and stops
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
        """One more iteration has ended."""
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
    wanted: bool, folder: Path, device: torch.device, note: Callable[[str], None]
) -> TraceProfiler | NoProfiler:
    """The one that profile=... asks for."""
    return TraceProfiler(folder, device, note) if wanted else NoProfiler()
