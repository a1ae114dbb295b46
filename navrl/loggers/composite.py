"""All of a run's loggers as one, where none of them can end the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from navrl.loggers.base import Logger, MirrorFactory
from navrl.loggers.console import NO_WORDS, ConsoleLogger
from navrl.loggers.jsonl import JsonlLogger

_LOG = logging.getLogger(__name__)
_RESERVED = {"iteration", "frames"}


class Loggers(Logger):
    """metrics.jsonl, the console and the chosen mirrors, each behind its own fence."""

    def __init__(
        self, *, jsonl: Logger, console: ConsoleLogger, mirrors: Mapping[str, Logger]
    ) -> None:
        self._console = console
        self._fences = [
            _Fence("metrics.jsonl", jsonl, loud=True),
            _Fence("console", console, loud=False),
            *(_Fence(name, mirror, loud=False) for name, mirror in mirrors.items()),
        ]

    @classmethod
    def open(
        cls,
        *,
        directory: Path,
        name: str,
        config: Mapping[str, Any],
        total: int,
        headline: Mapping[str, str],
        console: str,
        mirrors: Sequence[MirrorFactory],
        words: Mapping[str, Sequence[str]] = NO_WORDS,
    ) -> Self:
        """Loggers of the run in `directory`; a missing package or a wrong option raises here."""
        jsonl = JsonlLogger(directory=directory)
        screen = ConsoleLogger(total=total, headline=headline, words=words, style=console)
        built: dict[str, Logger] = {}
        for factory in mirrors:
            mirror = _build(partial(factory, directory=directory, name=name, config=config))
            label = type(mirror).__name__
            built[f"{label} {len(built) + 1}" if label in built else label] = mirror
        return cls(jsonl=jsonl, console=screen, mirrors=built)

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Record one iteration everywhere; tensors of one element are welcome."""
        clash = _RESERVED & metrics.keys()
        if clash:
            raise ValueError(f"metric names {sorted(clash)} are reserved for the record's place")
        plain = {key: float(number) for key, number in metrics.items()}
        self._each(lambda sink: sink.log(plain, iteration=iteration, frames=frames))

    def late(self, metrics: Mapping[str, float], iteration: int, frames: int) -> None:
        """Record everywhere what has become known of an earlier iteration."""
        self._each(lambda sink: sink.late(metrics, iteration, frames))

    def note(self, text: str) -> None:
        """Print a sentence for the user without tearing a live table."""
        self._fences[1].call(lambda _: self._console.note(text))

    def summary(self, metrics: Mapping[str, float]) -> None:
        """Record the numbers the whole run is judged by."""
        plain = {key: float(number) for key, number in metrics.items()}
        self._each(lambda sink: sink.summary(plain))

    def truncate_after(self, frames: int) -> None:
        """Forget what was logged beyond the frames a resumed run restarts from."""
        self._each(lambda sink: sink.truncate_after(frames))

    def state_dict(self) -> dict[str, Any]:
        """The loggers' states by name."""
        states: dict[str, Any] = {}
        for fence in self._fences:
            fence.call(partial(_keep_state, states, fence.name))
        return states

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give each logger its state; one that was not there before starts afresh."""
        for fence in self._fences:
            if fence.name in state:
                fence.call(partial(_restore_state, state[fence.name]))

    def close(self) -> None:
        """Close every logger and say which of them lost something."""
        self._each(lambda sink: sink.close())
        for fence in self._fences:
            fence.report()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _each(self, action: Callable[[Logger], None]) -> None:
        for fence in self._fences:
            fence.call(action)


class _Fence:
    """Counts and reports a logger's exceptions instead of passing them on."""

    def __init__(
        self, name: str, sink: Logger, *, loud: bool, fatal: tuple[type[Exception], ...] = ()
    ) -> None:
        self.name = name
        self._sink = sink
        self._loud = loud
        self._fatal = fatal
        self._failures = 0

    def call(self, action: Callable[[Logger], None]) -> None:
        try:
            action(self._sink)
        except self._fatal:
            raise
        # A sink is anybody's code on anybody's disk and network: whatever it raises costs a
        # line of a log, and must not cost the days of training behind it.
        except Exception as error:  # noqa: BLE001
            self._failures += 1
            self._warn(error)

    def report(self) -> None:
        if self._failures > 1:
            _LOG.warning("%s failed %d times in this run", self.name, self._failures)
            self._failures = 0

    def _warn(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if self._loud:
            # the record of truth: said again and again, ever more rarely (1, 2, 4, 8 ...)
            if self._failures & (self._failures - 1) == 0:
                _LOG.error("%s CANNOT BE WRITTEN, the run goes on: %s", self.name, text)
        elif self._failures == 1:
            _LOG.warning("%s failed, the run goes on without it: %s", self.name, text)


def _keep_state(states: dict[str, Any], name: str, sink: Logger) -> None:
    state = sink.state_dict()
    if state:
        states[name] = state


def _restore_state(state: Mapping[str, Any], sink: Logger) -> None:
    sink.load_state_dict(state)


def _build(factory: Callable[[], Logger]) -> Logger:
    """The mirror; a Null one with a warning where the machine, not the user, is at fault."""
    built: list[Logger] = [Logger()]
    fence = _Fence("the logger", built[0], loud=False, fatal=(ImportError, TypeError, ValueError))
    fence.call(lambda _: built.append(factory()))
    return built[-1]
