"""All loggers of a run as one; an exception in a logger never ends the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any, Self

from navrl.contracts import Logger
from navrl.loggers.console import NO_WORDS, ConsoleLogger
from navrl.loggers.jsonl import JsonlLogger
from navrl.loggers.null import NullLogger
from navrl.storage.files import UnsafePath

_LOG = logging.getLogger(__name__)
_RESERVED = {"iteration", "frames"}


# A partial from conf/logger; directory, name and config are known only when a run starts.
MirrorFactory = Callable[..., Logger]


class Loggers:
    """The loggers metrics.jsonl, console and the chosen mirrors, each behind its own fence."""

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
        """Open the loggers of the run in `directory`; a missing package or a wrong option raises here."""
        jsonl = JsonlLogger(directory=directory)
        screen = ConsoleLogger(total=total, headline=headline, words=words, style=console)
        built: dict[str, Logger] = {}
        for factory in mirrors:
            mirror = _open_mirror(factory, directory, name, config)
            label = type(mirror).__name__
            built[f"{label} {len(built) + 1}" if label in built else label] = mirror
        return cls(jsonl=jsonl, console=screen, mirrors=built)

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Record one iteration in all loggers; tensors of one element are accepted."""
        clash = _RESERVED & metrics.keys()
        if clash:
            raise ValueError(f"metric names {sorted(clash)} are reserved for the record's place")
        plain = {key: float(number) for key, number in metrics.items()}
        self._each(lambda sink: sink.log(plain, iteration=iteration, frames=frames))

    def late(self, metrics: Mapping[str, float], iteration: int, frames: int) -> None:
        """Record metrics of an earlier iteration in all loggers."""
        self._each(lambda sink: sink.late(metrics, iteration, frames))

    def note(self, text: str) -> None:
        """Print a sentence for the user without damaging a live table."""
        self._fences[1].call(lambda _: self._console.note(text))

    def summary(self, metrics: Mapping[str, float]) -> None:
        """Record the numbers that judge the whole run."""
        plain = {key: float(number) for key, number in metrics.items()}
        self._each(lambda sink: sink.summary(plain))

    @property
    def wants(self) -> frozenset[str]:
        """Return the kinds of files that some logger shows or keeps."""
        return frozenset(kind for fence in self._fences for kind in fence.wants)

    def attach(self, kind: str, path: Path, *, frames: int) -> None:
        """Give a file about the run to the loggers that want its kind."""
        for fence in self._fences:
            if kind in fence.wants:
                fence.call(lambda sink: sink.attach(kind, path, frames=frames))

    def truncate_after(self, frames: int) -> None:
        """Remove what was logged beyond the frames from which a run resumes."""
        self._each(lambda sink: sink.truncate_after(frames))

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the loggers by name."""
        states = {fence.name: fence.call(lambda sink: sink.state_dict()) for fence in self._fences}
        return {name: state for name, state in states.items() if state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore each logger's state; a logger without one starts afresh."""
        for fence in self._fences:
            if fence.name in state:
                fence.call(methodcaller("load_state_dict", state[fence.name]))

    def close(self) -> None:
        """Close every logger and report those that failed."""
        self._each(lambda sink: sink.close())
        for fence in self._fences:
            fence.report()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _each(self, action: Callable[[Logger], None]) -> None:
        for fence in self._fences:
            fence.call(action)


class _Fence:
    """A guard that counts and reports a logger's exceptions instead of raising them."""

    def __init__(self, name: str, sink: Logger, *, loud: bool) -> None:
        self.name = name
        self._sink = sink
        self._loud = loud
        self._failures = 0
        self._last = ""  # of the failures

    @property
    def wants(self) -> frozenset[str]:
        return getattr(self._sink, "wants", frozenset())  # a logger of a user may have none

    def call(self, action: Callable[[Logger], Any]) -> Any:
        try:
            return action(self._sink)
        # Loggers depend on disks, networks and foreign code: an exception in them costs a line of a log,
        # and must not end days of training.
        except Exception as error:  # noqa: BLE001
            self._failures += 1
            self._warn(error)
            return None

    def report(self) -> None:
        if self._failures > 1:
            text = "%s failed %d times in this run, at last: %s"
            _LOG.warning(text, self.name, self._failures, self._last)
            self._failures = 0

    def _warn(self, error: Exception) -> None:
        self._last = f"{type(error).__name__}: {error}"
        if self._loud:
            # the record of the run: report failures 1, 2, 4, 8, ...
            if self._failures & (self._failures - 1) == 0:
                _LOG.error("%s CANNOT BE WRITTEN, the run goes on: %s", self.name, self._last)
        elif self._failures == 1:
            _LOG.warning("%s failed, the run goes on without it: %s", self.name, self._last)


def _open_mirror(
    factory: MirrorFactory, directory: Path, name: str, config: Mapping[str, Any]
) -> Logger:
    """Return the mirror, or a NullLogger and a warning if the machine is at fault, not option or folder."""
    try:
        return factory(directory=directory, name=name, config=config)
    except (ImportError, TypeError, ValueError, UnsafePath):
        raise
    except Exception as error:  # noqa: BLE001  (as above)
        text = f"{type(error).__name__}: {error}"
        _LOG.warning("the logger failed, the run goes on without it: %s", text)
        return NullLogger(directory=directory, name=name, config=config)
