"""kill -9 of supervisors and of trainings: which of their processes are still there afterwards."""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from fault_kills import RUN, train
from navrl.loggers.jsonl import read_metrics

MARK = (
    "NAVRL_FAULT_MARK"  # in the environment of a training, so also of all processes that it starts
)
_ENDLESS = ("eval_every=1", "eval_async=true", "total_frames=1000000000")
_PATIENCE_S = 10.0
_BEGIN_S = 120.0
_WORKER = "navrl.run.evaluation"
_COMPILERS = ("compile_worker", "cc1plus")


class Orphans(NamedTuple):
    """Counts of processes; the last two have to be 0."""

    kills: int
    trainings: int  # kills of a supervisor with a training
    workers: int  # kills while an evaluation worker lived
    compilers: int  # kills while compilers lived
    slowest_s: float  # until all were gone
    left: int  # processes that were there after 10 s
    overlaps: int  # rows that are there twice


def kill_supervisors(count: int, place: Path, seed: int) -> Orphans:
    """Kill -9 the supervisor of a training; every other training compiles, with nothing kept."""
    return _kill(count, place, seed, "restarts=3")


def kill_trainings(count: int, place: Path, seed: int) -> Orphans:
    """Kill -9 a training that has no supervisor."""
    return _kill(count, place, seed, "restarts=0")  # a compiler would finish its file


def _kill(count: int, place: Path, seed: int, restarts: str) -> Orphans:
    torch.set_num_threads(1)  # OpenMP does not survive a fork
    place.mkdir()
    supervised = restarts != "restarts=0"
    first = "-m navrl.train" if supervised else _WORKER
    rng = random.Random(seed)
    trainings = workers = compilers = left = 0
    slowest_s = 0.0
    for number in range(count):
        mark = f"{os.getpid()}-{restarts}-{number}"
        compiling = supervised and number % 2 == 1
        target = _start(place, mark, restarts, compiling=compiling)
        run = place / "run"
        _wait_for(_moment(number // 2, run, mark, rng, first=first, compiling=compiling))
        living = alive(mark).values()
        trainings += any("-m navrl.train" in words for words in living)
        workers += any(_WORKER in words for words in living)
        compilers += any(name in words for words in living for name in _COMPILERS)
        os.kill(target, signal.SIGKILL)
        os.waitpid(target, 0)
        killed = time.monotonic()
        while alive(mark) and time.monotonic() - killed < _PATIENCE_S:
            time.sleep(0.05)
        slowest_s = max(slowest_s, time.monotonic() - killed)
        left += len(alive(mark))
    written = place / "run" / "metrics.jsonl"
    found = read_metrics(written) if written.exists() else iter(())
    rows = [row["iteration"] for row in found if "time/iteration" in row]  # others are late metrics
    overlaps = len(rows) - len(set(rows))
    return Orphans(count, trainings, workers, compilers, slowest_s, left, overlaps)


def _start(place: Path, mark: str, restarts: str, *, compiling: bool) -> int:
    """Return the process of a training without an end, which continues the one before."""
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        os.environ[MARK] = mark
        words = [*RUN, *_ENDLESS, restarts, "resume=auto", f"hydra.run.dir={place / 'run'}"]
        if compiling:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(place / mark)
            words.append("compile=on")
        log = os.open(place / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        code = train(*words)
    finally:
        os._exit(code)


def _moment(
    kind: int, run: Path, mark: str, rng: random.Random, *, first: str, compiling: bool
) -> Callable[[], bool]:
    """Return a condition for the kill: early, with a worker, in the loop, at random; or compiling."""
    until = time.monotonic() + rng.uniform(0.0, 8.0)
    size = _size(run / "metrics.jsonl")

    def begun(*names: str) -> Callable[[], bool]:
        return lambda: any(name in words for words in alive(mark).values() for name in names)

    later = (begun(_WORKER), lambda: _size(run / "metrics.jsonl") > size)
    conditions: Sequence[Callable[[], bool]] = (
        begun(first),
        *((begun(*_COMPILERS),) * 2 if compiling else later),
        lambda: time.monotonic() > until,
    )
    return conditions[kind % len(conditions)]


def _wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _BEGIN_S
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError(f"the training did not come so far in {_BEGIN_S:.0f} s")
        time.sleep(0.02)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def alive(mark: str) -> dict[int, str]:
    """Return the command lines of all processes with this mark that are no zombies, by process."""
    wanted, found = f"{MARK}={mark}".encode(), {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(process.name)] = words
        except OSError:  # it has ended since
            continue
    return found
