"""A watch over the other ranks: one that is frozen, or cut off from the network, ends the run.

A rank that has died closes its connections, which ends everybody's collective at once. One that lives and
does not answer would be waited for without end, so every rank reports from a thread of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from torch import distributed

from navrl.ranks.shared import machine

_EVERY_S, _SILENT_S = 2.0, 20.0
_SILENT_BEATS = round(_SILENT_S / _EVERY_S)  # of our own: none passes while this machine sleeps
_ANSWER = timedelta(seconds=10)  # of the store


_losses: list[Callable[[str], None]] = []  # are called with the reason before this process ends


@contextlib.contextmanager
def on_loss(function: Callable[[str], None]) -> Iterator[None]:
    """Call the function with a sentence if a rank that is lost ends this process while open."""
    _losses.append(function)
    try:
        yield
    finally:
        _losses.remove(function)


@contextlib.contextmanager
def watched(rank: int, size: int) -> Iterator[None]:
    """Report that this rank lives while open, and end the process once another one has not for long."""
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(rank, size, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_EVERY_S)


def _watch(rank: int, size: int, ended: threading.Event) -> None:
    place, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    seen: dict[int, tuple[bytes, int]] = {}
    try:
        store: Any = distributed.TCPStore(  # type: ignore[attr-defined]
            place, port, is_master=False, timeout=_ANSWER
        )
        me = f"{socket.gethostname()} {machine()} {os.getpid()}"
        for beat in range(1 << 62):
            store.set(_key(rank), f"{me} {beat}")
            for other in set(range(size)) - {rank}:
                _look(store, other, seen, beat)
            silent = [n for n, (_, since) in seen.items() if beat - since > _SILENT_BEATS]
            if silent and not ended.is_set():
                _end(silent[0], seen[silent[0]][0])
            if ended.wait(_EVERY_S):
                store.set(_key(rank), "")  # nobody waits for it any more
                return
    except (OSError, RuntimeError, ValueError):
        # The process that holds the store is gone. If that was torchrun, this one is about to end as well.
        if not ended.wait(_SILENT_S):
            _lose("torchrun, or the network to it, is gone")


def _look(store: Any, other: int, seen: dict[int, tuple[bytes, int]], beat: int) -> None:
    """Note when another rank reported anew; one that has ended well is not waited for."""
    if not store.check([_key(other)]):
        return  # it has not begun
    report = store.get(_key(other))
    if not report:
        seen.pop(other, None)
    elif seen.get(other, (b"", 0))[0] != report:
        seen[other] = (report, beat)


def _end(silent: int, report: bytes) -> None:
    """Say which rank is silent, kill it where it runs on this machine, and end this process."""
    host, place, pid, _ = report.decode().rsplit(" ", 3)
    if (host, place) == (socket.gethostname(), str(machine())):  # a number is of one container
        with contextlib.suppress(OSError):
            os.kill(int(pid), signal.SIGKILL)  # stopped as it is, it would not end otherwise
    _lose(f"rank {silent} (process {pid} on {host}) has not answered for {_SILENT_S:.0f} s")


def _lose(reason: str) -> None:
    try:
        for function in _losses:
            function(reason)
        sys.stderr.write(f"navrl: {reason}; the run ends\n")
    finally:
        os._exit(1)  # the main thread waits in a collective, and cannot be interrupted


def _key(rank: int) -> str:
    return f"navrl/alive/{rank}"
