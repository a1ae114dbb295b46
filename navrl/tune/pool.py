"""Several workers of a search on one machine: a process each, on cores of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from navrl.config.signals import PARENT, blocked

_POLL_S = 0.3
_PATIENCE_S = 90.0  # for workers whose trainings save before they end


class Pool:
    """The workers of one command; one that is killed is started again."""

    def __init__(
        self, command: Callable[[Sequence[int]], Sequence[str]], cores: list[list[int]]
    ) -> None:
        self._command = command
        self._cores = cores
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def run(self) -> int:
        """Return 0 once all workers are done, or the code of the first that failed, which ends the rest."""
        try:
            for index in range(len(self._cores)):
                self._start(index)
            while self._processes:
                time.sleep(_POLL_S)
                for index, process in list(self._processes.items()):
                    code = process.poll()
                    if code is None:
                        continue
                    del self._processes[index]
                    if code > 0:
                        return code
                    if code < 0:
                        name = signal.Signals(-code).name
                        sys.stderr.write(
                            f"navrl: worker {index} was killed by {name}; started again\n"
                        )
                        self._start(index)
            return 0
        finally:
            self._end()

    def _start(self, index: int) -> None:
        with blocked():  # until the worker can answer
            self._processes[index] = subprocess.Popen(
                self._command(self._cores[index]),
                process_group=0,  # Ctrl-C reaches it once, through us
                env={**os.environ, PARENT: str(os.getpid())},
            )

    def _end(self) -> None:
        """End all workers, which give their trials to those who come after them."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + _PATIENCE_S
        for process in self._processes.values():
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def cores_of(workers: int, threads: int) -> list[list[int]]:
    """Return the cores of each worker; empty where there are too few for all, so that the system decides."""
    if not hasattr(os, "sched_getaffinity"):
        return [[] for _ in range(workers)]
    free = sorted(os.sched_getaffinity(0))
    if len(free) < workers * threads:
        return [[] for _ in range(workers)]
    return [free[index * threads : (index + 1) * threads] for index in range(workers)]


def pin(cores: Sequence[int]) -> None:
    """Keep this process, and those it starts, on these cores."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
