"""Episodes of checkpoints, recorded as pages by `navrl replay` in one child process after another.

The child has the lowest priority, no GPU and a limited time. A stranger's checkpoint is read there, and not
in the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from navrl.config.checks import printable
from navrl.config.signals import PARENT

MOST_FLIGHTS = 40
_MOST_WAITING = 8
_MOST_S = 300.0
_MOST_BYTES = 64 << 20  # of a page
_LOWEST = "19"  # priority
_LONGEST = 300  # characters of a sentence


class Flight:
    """One recording: asked for, being made, there or failed."""

    def __init__(self, run: str, checkpoint: Path) -> None:
        self.id = secrets.token_hex(8)
        self.run = run
        self.checkpoint = checkpoint
        self.state = "waiting"
        self.reason = ""

    def facts(self) -> dict[str, Any]:
        """Return what a page shows of it."""
        return {
            "id": self.id,
            "file": self.checkpoint.name,
            "state": self.state,
            "reason": self.reason,
        }


class Flights:
    """The recordings of a server, made one at a time while `work` goes on."""

    def __init__(self, overrides: Sequence[str], changed: Callable[[str], None]) -> None:
        self._overrides = overrides
        self._changed = changed  # is called with the run
        self._flights: dict[tuple[str, str], Flight] = {}  # by run and name of the checkpoint
        self._queue: asyncio.Queue[Flight] = asyncio.Queue(_MOST_WAITING)
        self._folder = Path()

    def ask(self, run: str, checkpoint: Path) -> Flight | None:
        """Return the recording of a checkpoint, which is made if there is none; None if too many wait."""
        key = (run, checkpoint.name)
        if key in self._flights and self._flights[key].state != "failed":
            return self._flights[key]
        flight = Flight(run, checkpoint)
        try:
            self._queue.put_nowait(flight)
        except asyncio.QueueFull:
            return None
        self._flights.pop(key, None)
        self._flights[key] = flight
        self._changed(run)
        return flight

    def of(self, run: str) -> list[dict[str, Any]]:
        """Return the recordings of a run, in the order of frames."""
        found = [flight for flight in self._flights.values() if flight.run == run]
        return [flight.facts() for flight in sorted(found, key=lambda each: each.checkpoint.name)]

    def page(self, id: str) -> Path | None:
        """Return the file of a recording that is there."""
        known = {flight.id: flight for flight in self._flights.values() if flight.state == "there"}
        return self._file(known[id]) if id in known else None

    async def work(self) -> None:
        """Make the recordings, one after another, for ever; delete them in the end."""
        with tempfile.TemporaryDirectory(prefix="navrl-watch-") as folder:
            self._folder = Path(folder)
            while True:
                flight = await self._queue.get()
                flight.state = "recording"
                self._changed(flight.run)
                try:
                    flight.reason = await self._record(flight)
                except OSError as error:  # no process can be started, or it has left no page
                    flight.reason = printable(error)[:_LONGEST]
                if flight.reason:
                    self._file(flight).unlink(missing_ok=True)
                flight.state = "failed" if flight.reason else "there"
                self._forget_old(flight)
                self._changed(flight.run)

    def _forget_old(self, newest: Flight) -> None:
        """Delete recordings beyond the most that are kept: the oldest ones, but for the first of each run."""
        first = {flight.run: key for key, flight in reversed(self._flights.items())}
        done = [key for key, each in self._flights.items() if each.state in ("there", "failed")]
        spare = [key for key in done if key != first[self._flights[key].run]] or done
        for key in spare[: max(0, len(done) - MOST_FLIGHTS)]:
            if self._flights[key] is not newest:
                self._file(self._flights.pop(key)).unlink(missing_ok=True)

    def _file(self, flight: Flight) -> Path:
        return self._folder / f"{flight.id}.html"

    async def _record(self, flight: Flight) -> str:
        """Record an episode; return why it failed, or nothing."""
        file = self._file(flight)
        words = [
            "replay",
            str(flight.checkpoint.absolute()),
            *self._overrides,
            "--output",
            str(file),
        ]
        child = await asyncio.create_subprocess_exec(
            *("nice", "-n", _LOWEST, sys.executable, "-P", "-m", "navrl.cli", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                PARENT: str(os.getpid()),
                "CUDA_VISIBLE_DEVICES": "",
                "OMP_NUM_THREADS": "1",
            },
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_MOST_S):
                _, text = await child.communicate()
        except TimeoutError:
            return f"stopped after {_MOST_S:.0f} s"
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                await child.wait()
        if child.returncode:
            lines = [line for line in text.decode(errors="replace").splitlines() if line.strip()]
            last = lines[-1].removeprefix("navrl: error: ") if lines else "it ended without a word"
            return printable(last)[:_LONGEST]
        return "" if file.stat().st_size <= _MOST_BYTES else "its page is too large"
