"""Progress of a training: seconds per section, frames per second, the share done and the time left (ETA)."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import torch
from tensordict import TensorDictBase

from navrl.envs.core.compiling import next_iteration
from navrl.run.memory import memory
from navrl.run.timers import Sections

_EVALUATING = ("curriculum", "evaluate")  # sections that collect nothing
_RECENT = 50  # iterations whose mean speed foretells the time left
_RATED = ("collect", "update")  # sections that every frame goes through


class Monitor:
    """The clock of the training loop: sections of an iteration, rates and memory."""

    def __init__(
        self,
        *,
        device: torch.device | str,
        total_frames: int,
        start_frames: int,
        unsettled: int = 1,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._device = torch.device(device)
        self._total_frames = total_frames
        self._frames = self._start_frames = start_frames
        self._unsettled = unsettled  # of the next iterations, which compile
        self._evaluating_s = 0.0  # of all iterations
        self._recent: deque[tuple[int, float]] = deque(maxlen=_RECENT)  # frames and seconds
        self._clock = clock
        self._since = clock()
        self._cpu_since = time.process_time()
        self._sections = Sections(device, clock=clock)
        self.section = self._sections.section

    def pop(self, frames: int) -> dict[str, float]:
        """Return seconds, rates and memory since the last `pop`; `frames` counts from the run's start."""
        seconds = self._sections.read()
        metrics = {f"time/{name}": each for name, each in seconds.items()}
        cpu_s = (
            time.process_time()
        )  # of all threads; what neighbours do to a busy machine is not in it
        metrics |= {
            "time/iteration": self._clock() - self._since,
            "time/cpu": cpu_s - self._cpu_since,
        }
        metrics |= {**self._rates(frames, seconds), **memory(self._device)}
        self._frames, self._since, self._cpu_since = frames, self._clock(), cpu_s
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
            next_iteration()

    def summary(self) -> dict[str, float]:
        """Return the median and the 95th percentile of every section over the latest iterations."""
        return {
            f"time/{name}_{which}": seconds
            for name, spread in self._sections.spread().items()
            for which, seconds in spread._asdict().items()
        }

    def _rates(self, frames: int, seconds: dict[str, float]) -> dict[str, float]:
        """Return frames per second since the last `pop`, overall and by section, the share done and the ETA.

        The ETA goes by the mean of the latest iterations, without the first ones, which compile. Evaluations
        count in it only: as much time per frame as they have taken so far.
        """
        done = frames - self._frames
        evaluating_s = sum(seconds.get(name, 0.0) for name in _EVALUATING)
        self._evaluating_s += evaluating_s
        training_s = self._clock() - self._since - evaluating_s
        fps = _per_second(done, training_s)
        if self._unsettled:
            self._unsettled -= 1
            steady_fps = fps
        else:
            self._recent.append((done, training_s))
            steady_fps = _per_second(*(sum(each) for each in zip(*self._recent, strict=True)))
        rates = {
            f"time/{name}_fps": _per_second(done, seconds[name])
            for name in _RATED
            if name in seconds
        }
        left = max(0, self._total_frames - frames)
        later_s = self._evaluating_s * left / max(1, frames - self._start_frames)
        progress = {
            "time/progress": frames / self._total_frames,
            "time/eta_s": eta_s(left, steady_fps) + later_s,
        }
        return {"time/fps": fps, **rates, **progress}


def eta_s(frames_left: int, fps: float) -> float:
    """Return the seconds until `frames_left` are collected at `fps`; infinite if nothing moves."""
    if frames_left <= 0:
        return 0.0
    return frames_left / fps if fps > 0.0 else math.inf


def _per_second(count: float, seconds: float) -> float:
    return count / seconds if seconds > 0.0 else 0.0
