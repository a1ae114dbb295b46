"""restarts=N: the training runs in a child process, which is started again when it crashes."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DIVERGED = "TrainingDivergedError"  # begins what status.json says of it


def supervise(command: Callable[[int], Sequence[str]], folder: Path, restarts: int) -> int:
    """The exit code of the last of at most 1 + `restarts` processes.

    Each runs the command for as many divergences as there were: the same steps would lead there again.
    Started again is what crashed: killed by the system, or failed while it trained in `folder`. Wrong options
    would be as wrong again, and who sends SIGINT or SIGTERM wants an end; the child gets these signals too.
    """
    child, divergences = _Child(), 0
    with child.relaying():
        for attempt in range(restarts + 1):
            code = child.run(command(divergences))
            crashed = not child.told and _crashed(code, folder, child.pid)
            if not crashed:
                break
            left = restarts - attempt
            then = f"restart {attempt + 1} of {restarts}" if left else "no restart is left"
            if str(_said_by(child.pid, folder).get("reason")).startswith(_DIVERGED):
                divergences += 1
                then += " at half the learning rates" if left else ""
            sys.stderr.write(f"navrl: training {_said(code)}; {then}\n")
    return 128 - code if code < 0 else code


class _Child:
    """The process of the day, to which signals are relayed."""

    def __init__(self) -> None:
        self.told = 0  # the signal by which somebody asked for an end
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, command: Sequence[str]) -> int:
        """Start it and wait for its end."""
        # A group of its own: Ctrl-C reaches it once, through us, and not a second time from the terminal.
        self._process = subprocess.Popen(command, process_group=0)
        self.pid = self._process.pid
        if self.told:  # while it was being started, so that it did not reach it
            self._process.send_signal(self.told)
        return self._process.wait()

    @contextlib.contextmanager
    def relaying(self) -> Iterator[None]:
        """While open, the child gets our signals."""
        before = {number: signal.signal(number, self._relay) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _relay(self, number: int, frame: FrameType | None) -> None:
        self.told = number
        if self._process is not None:
            self._process.send_signal(number)


def _crashed(code: int, folder: Path, pid: int) -> bool:
    """Whether the end of that process is worth another attempt."""
    if code < 0:
        return -code not in _SIGNALS
    return code == 1 and bool(_said_by(pid, folder))  # before that a folder or an option is wrong


def _said_by(pid: int, folder: Path) -> dict[str, Any]:
    """What the process says of the run; nothing where it did not come to train."""
    try:
        found = json.loads((folder / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and found.get("pid") == pid else {}


def _said(code: int) -> str:
    if code > 0:
        return f"failed with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"
