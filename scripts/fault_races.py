"""Races for one run: a training that ends against one that resumes, paused where the order decides.

The pauses are hooks in forked processes, so no race depends on the speed of the machine.
"""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch

import navrl.train
from fault_kills import RUN, train
from navrl.loggers.jsonl import read_metrics
from navrl.run import plan
from navrl.run.records import Records

_DIED = 7  # a training that ends before its first iteration, as if it was killed
_FOLDER = "outputs/run"
_WAYS = ("auto", "run", "latest", "file")


class Races(NamedTuple):
    """Counts of races; the last three have to be 0."""

    races: int
    resumed: int  # from a look before the other's last save to a lock after its end
    refused: int  # while the other held the lock, all hidden files deleted
    lost: int  # rows missing in metrics.jsonl
    double: int
    wrong: int  # exit codes, or sentences that do not name the process that holds the lock


class Pause:
    """A place where a forked process waits until its parent lets it go on."""

    def __init__(self) -> None:
        self._reached, self._at = os.pipe()
        self._waits, self._goes = os.pipe()

    def here(self) -> None:
        """Wait, in the child."""
        os.write(self._at, b".")
        os.read(self._waits, 1)

    def reached(self, pid: int) -> None:
        """Wait for the child, in the parent."""
        os.close(self._at)  # so that a child that died is the end of the pipe
        if not os.read(self._reached, 1):
            raise RuntimeError(f"process {pid} has ended before the place where it was to wait")

    def go(self) -> None:
        """Let the child go on."""
        os.write(self._goes, b".")
        for descriptor in (self._reached, self._waits, self._goes):
            os.close(descriptor)


def race(count: int, place: Path) -> Races:
    """Let a training make one iteration more, `count` times, and another resume the run meanwhile."""
    torch.set_num_threads(1)  # OpenMP does not survive a fork
    run = place / _FOLDER
    refused = wrong = 0
    for number in range(count):
        meets = number % 5 == 4  # then it resumes before the other one has ended
        way = _WAYS[number % 5 % len(_WAYS)]
        code, error, ender = _round(place, number, way, meets=meets)
        refused += code == 1
        named = re.search(r"is in use by process (\d+);", error)
        wrong += code != (1 if meets else _DIED)
        wrong += meets and (named is None or int(named[1]) != ender)
    rows = [int(row["iteration"]) for row in read_metrics(run / "metrics.jsonl")]
    lost = len(set(range(1, count + 1)) - set(rows))
    return Races(count, count - refused, refused, lost, len(rows) - len(set(rows)), wrong)


def _round(place: Path, number: int, way: str, *, meets: bool) -> tuple[int, str, int]:
    """Return exit code and stderr of the training that resumes, and the pid of the one that ends."""
    ends, locks = Pause(), Pause()
    first = _fork(place, lambda: _end(number, ends))
    ends.reached(first)
    second = _fork(place, lambda: _resume(place / _FOLDER, way, number, locks))
    locks.reached(second)
    if meets:
        for path in (place / _FOLDER).glob(".*"):
            path.unlink()
        locks.go()
        code = _code(second)
        ends.go()
        ended = _code(first)
    else:
        ends.go()
        ended = _code(first)
        locks.go()
        code = _code(second)
    if ended != 0:
        raise RuntimeError(f"the training that ends has exit code {ended}: {_error(place, first)}")
    return code, _error(place, second), first


def _fork(place: Path, action: Callable[[], int]) -> int:
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        os.chdir(place)
        with Path(f"stderr{os.getpid()}").open("w", buffering=1, encoding="utf-8") as sys.stderr:
            code = action()
    finally:
        os._exit(code)


def _code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _error(place: Path, child: int) -> str:
    return Path(place, f"stderr{child}").read_text(encoding="utf-8")


def _end(number: int, pause: Pause) -> int:
    """Train one iteration more and wait before the last save."""
    write = Records.write

    def waiting(self: Records, state: Any, **options: Any) -> None:
        if options["last"]:
            pause.here()
        write(self, state, **options)

    with mock.patch.object(Records, "write", waiting):
        total = f"total_frames={128 * (number + 1)}"
        return train(*RUN, "resume=auto", total, f"hydra.run.dir={_FOLDER}")


def _resume(run: Path, way: str, number: int, pause: Pause) -> int:
    """Resume the run, wait before its folder is locked, and die when training would begin."""
    newest = max(run.glob("checkpoints/step_*.ckpt"), default=run)
    # The first run has no checkpoint before its last one.
    way = "auto" if newest == run else way
    named = {"auto": "auto", "run": _FOLDER, "latest": "latest", "file": str(newest)}[way]
    words = [*RUN, f"hydra.run.dir={_FOLDER}"] if way == "auto" else ["console=none"]
    lock, paused = plan.RunLock, []

    def waiting(path: Path) -> Any:
        if not paused:
            paused.append(path)
            pause.here()
        return lock(path)

    with (
        mock.patch.object(plan, "RunLock", waiting),
        mock.patch.object(navrl.train, "loop", side_effect=lambda *_: os._exit(_DIED)),
    ):
        return train(*words, f"resume={named}", f"total_frames={128 * (number + 3)}")
