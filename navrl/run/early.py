"""Ctrl-C while a command is still importing: nothing has begun, so nothing is lost, and one line says so."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from types import FrameType

_IMPORTED = time.monotonic()
_jobs_began: list[float] = []  # those of a sweep follow each other in one process


def job_begins() -> None:
    """A training begins; the first one of a process has begun with the import of navrl."""
    _jobs_began.append(time.monotonic() if _jobs_began else _IMPORTED)


def job_age_s() -> float:
    """Seconds since the training that is under way began."""
    return time.monotonic() - _jobs_began[-1]


def is_command() -> bool:
    """Whether this process is `navrl ...` or `python -m navrl...`, not a program that imports navrl."""
    modules = [word for flag, word in itertools.pairwise(sys.orig_argv) if flag == "-m"]
    return os.path.basename(sys.argv[0]) == "navrl" or any(
        module.startswith("navrl.") for module in modules[:1]
    )


def leave_at_once() -> None:
    """From now on Ctrl-C ends the process at once, whatever is half imported."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody ignores it
        signal.signal(signal.SIGINT, _leave)


def listen() -> None:
    """Ctrl-C is a KeyboardInterrupt again: whoever calls this knows what to do about it."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"navrl: stopped before anything began\n")
    os._exit(128 + number)
