"""Signals that end a command: one sentence, exit code 128 + n, no traceback; from its imports to its exit.

Imports nothing that takes time.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SAVING = signal.SIGUSR1  # clusters send it before they take the machine
ALL = (*ENDING, SAVING)
PARENT = (
    "NAVRL_PARENT"  # the process that this one is to end with; then it leads a group of its own
)
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)

Handler = Callable[[int, FrameType | None], None]


class Stopped(KeyboardInterrupt):
    """The end of a command by a signal; the message is one sentence for the user."""

    def __init__(self, number: int, sentence: str = "") -> None:
        super().__init__(sentence or f"stopped by {name_of(number)} before it was done")
        self.number = number


def name_of(number: int) -> str:
    """Return the name of a signal as users know it."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def number_of(stop: KeyboardInterrupt) -> int:
    """Return the number of the signal; the shell's exit code for it is 128 more."""
    return stop.number if isinstance(stop, Stopped) else signal.SIGINT


def end_at_once() -> None:
    """Let signals end this process at once, with a sentence, where nothing else handles them.

    Call it before the imports, which take seconds. It also holds at exit, while threads and files close.
    """
    set_handlers(_end, ENDING)
    set_handlers(_ignore, [SAVING])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ALL)  # a parent may have held them back until here
    parent = os.environ.pop(PARENT, "")
    if parent:
        end_with_parent(int(parent), signal.SIGTERM)
        atexit.register(_end_group)


def end_with_parent(parent: int, number: int) -> None:
    """Let the system send this signal as soon as the parent process has ended, however it ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, number)
    if os.getppid() != parent:  # it ended before
        os.kill(os.getpid(), number)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raise Stopped for signals that end a command, while open."""
    with handling(_raise, ENDING), handling(_ignore, [SAVING]):
        yield


@contextlib.contextmanager
def ending_with_reader() -> Iterator[None]:
    """End as SIGPIPE would, but with what has to be closed, where nothing reads stdout any more: `| head`."""
    try:
        yield
        if sys.stdout is not None:  # it was closed before the start
            sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is flushed at exit
        raise SystemExit(128 + signal.SIGPIPE) from None


def _is_unread() -> bool:
    """Return whether stdout is a pipe whose reader has left."""
    poll = select.poll()
    poll.register(1, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Hold signals back while open, so that a second one does not interrupt the answer to the first."""
    came: list[int] = []
    with handling(lambda number, _: came.append(number), ALL):
        yield
    for number in came:
        signal.raise_signal(number)


@contextlib.contextmanager
def handling(handler: Handler, numbers: Iterable[int]) -> Iterator[None]:
    """Handle these signals while open, in the main thread, which alone may."""
    before = set_handlers(handler, numbers)
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def set_handlers(handler: Handler, numbers: Iterable[int]) -> dict[int, Handler | int]:
    """Handle these signals from now on; return the handlers before."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    # What nohup ignores stays ignored.
    ignored = {n for n in (signal.SIGHUP,) if signal.getsignal(n) is signal.SIG_IGN}
    return {
        number: signal.signal(number, handler) or signal.SIG_DFL
        for number in numbers
        if number not in ignored
    }


@contextlib.contextmanager
def blocked(numbers: Iterable[int] = ALL) -> Iterator[None]:
    """Hold these signals back while open; a process started meanwhile begins with that."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_group() -> None:
    """End what this process has started and left in its group, such as a compiler in mid-file."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(0, signal.SIGTERM)


def _raise(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: there is nothing new to save."""


def _end(number: int, frame: FrameType | None) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(
            RuntimeError, OSError, ValueError
        ):  # in the middle of a write; closed
            stream.flush()
    with contextlib.suppress(OSError):
        os.write(2, f"navrl: stopped by {name_of(number)}\n".encode())
    os._exit(128 + number)
