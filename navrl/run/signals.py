"""Signals: Ctrl-C and SIGTERM end the loop after its iteration, a second one ends the process at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """A context in which `requested` turns true at the first signal; `exit_code` is the shell's for it.

    `saved_frames` returns the frames of the last save, None without one, for the message of the second
    signal. `evaluates` says that an iteration may end with an evaluation, which takes its time.
    """

    def __init__(self, saved_frames: Callable[[], int | None], *, evaluates: bool = False) -> None:
        self.number = 0
        self._first = "this iteration" + (" and its evaluation, if one is due" if evaluates else "")
        self._saved_frames = saved_frames
        self._previous: dict[int, object] = {}

    @property
    def requested(self) -> bool:
        """Return whether a signal has arrived."""
        return self.number != 0

    @property
    def exit_code(self) -> int:
        """Return 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.number

    def __enter__(self) -> Self:
        try:
            self._previous = {number: signal.getsignal(number) for number in _SIGNALS}
            for number in _SIGNALS:
                signal.signal(number, self._note)
        except ValueError:  # not the main thread, which alone may handle signals
            self._previous = {}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            frames = self._saved_frames()
            kept = f"the last save is of frame {frames:,}" if frames else "nothing was saved"
            os.write(2, f"stopped at once; {kept}\n".encode())
            sys.exit(128 + number)
        self.number = number
        # Straight to the descriptor: a handler may run in the middle of a buffered write. On a
        # terminal the cursor goes back, so that a live table still finds the line it left it on.
        end = "\r" if os.isatty(2) else "\n"
        os.write(2, f"stopping after {self._first}; once more stops at once{end}".encode())
