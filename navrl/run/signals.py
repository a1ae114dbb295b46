"""Signals in a training: the first one ends it once the iteration is saved, a second one at once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, Self, TypeVar

from navrl.config.signals import ALL, SAVING, Stopped, handling, name_of

# A cluster signals all processes of a job: a child of restarts=N gets the signal directly and relayed.
_SAME_S = 0.5
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Interrupt:
    """A context in which `requested` turns true at the first signal, and which exits with its code.

    Until `defer` the first signal ends the process at once. `saved_frames` returns the frames of the last
    save, None without one, for the message. `checks` says that an iteration may end with a check of the
    lesson, which takes its time; `silent` that another process prints the same.
    """

    def __init__(
        self, saved_frames: Callable[[], int | None], *, checks: bool = False, silent: bool = False
    ) -> None:
        self.number = 0
        self.save_requested = False
        self._reason = ""
        self._first = "this iteration" + (" and the check of its lesson" if checks else "")
        self._saved_frames, self._silent = saved_frames, silent
        self._deferring = self._attempting = False
        self._since = 0.0  # the last signal
        self._handlers = contextlib.ExitStack()

    @property
    def requested(self) -> bool:
        """Return whether a signal has arrived that ends the training."""
        return self.number != 0

    @property
    def reason(self) -> str:
        """Return what ends the training: a signal, or the request that was taken for one."""
        return self._reason or name_of(self.number)

    def stop(self, reason: str) -> None:
        """End the training after this iteration as SIGTERM does."""
        if not self.requested:
            self._reason = reason
            self.adopt(signal.SIGTERM)

    def adopt(self, number: int) -> None:
        """Act on a signal that another rank has received; this one may yet receive it too."""
        if number and not self.number:
            self.number, self._since = number, time.monotonic()

    def defer(self) -> None:
        """Wait, from now on, until the iteration is saved."""
        self._deferring = True

    def attempt(
        self, function: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs
    ) -> _T | None:
        """Return what the function returns; None if a signal cut it short, or came before."""
        if self.requested:
            return None
        try:
            self._attempting = True
            return function(*arguments, **options)
        except _CutShort:
            return None
        finally:
            self._attempting = False

    def __enter__(self) -> Self:
        self._handlers.enter_context(handling(self._note, ALL))
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._handlers.close()
        if kind is None and self.requested:
            raise SystemExit(128 + self.number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == SAVING:
            self.save_requested = True
            self._print("saving after this iteration")
            return
        now, since = time.monotonic(), self._since
        if number == self.number and now - since < _SAME_S:
            return
        first, self.number, self._since = not self.number, number, now
        if not first or not self._deferring:
            frames = self._saved_frames()
            kept = f"the last save is of frame {frames:,}" if frames else "nothing was saved"
            raise Stopped(number, f"stopped at once; {kept}")
        if self._attempting:
            raise _CutShort
        self._print(f"stopping after {self._first}; once more stops at once")

    def _print(self, text: str) -> None:
        if not self._silent:
            _print(text)


class _CutShort(BaseException):
    """The end of what is attempted, by the first signal."""


def _print(text: str) -> None:
    """Print a line straight to the descriptor: a handler may run in the middle of a buffered write."""
    # On a terminal the cursor goes back, so that a live table still finds the line it left it on.
    end = "\r" if os.isatty(2) else "\n"
    with contextlib.suppress(OSError):  # a terminal that hung up
        os.write(2, f"{text}{end}".encode())
