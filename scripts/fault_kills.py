"""kill -9 at random moments, of savers and of whole trainings.

The files on the disk stay whole and are no older than the last finished save. After the same command again a
run ends with the bits of a run that was never killed.
"""

import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from hydra.core.global_hydra import GlobalHydra

import navrl.train
from navrl.loggers.jsonl import read_metrics
from navrl.storage.async_saver import AsyncSaver
from navrl.storage.checkpoint import load
from navrl.storage.compare import differences
from navrl.storage.find import find
from navrl.storage.saver import CheckpointSaver

_TENSORS, _FLOATS = 4, 65_536  # 1 MB
RUN = (
    *(
        "experiment=debug",
        "logger=none",
        "console=none",
        "eval_opponents=[]",
        "env.sim.tick_s=0.25",
    ),
    *("checkpoint=async", "checkpoint.save_every=1"),
)
_UNTIMED = ("time/", "memory/", "saver/")
_TIMEOUT_S = 120.0


class Kills(NamedTuple):
    """Counts of faults after the kills; all but the first three have to be 0."""

    kills: int
    mid_save: int  # kills while a save was under way
    saves: int  # finished saves
    unreadable: int  # nothing intact, although a save had finished
    damaged: int  # a file under a final name that is not whole
    lost: int  # older than the last finished save
    torn: int  # of two different moments
    leftovers: int  # more than one temporary file


def sync_saver(directory: Path) -> Any:
    """Return checkpoint=sync."""
    return CheckpointSaver(
        directory=directory,
        keep_last=2,
        keep_best=1,
        save_every=1,
        on_error="stop",
        compress=False,
    )


def async_saver(directory: Path) -> Any:
    """Return checkpoint=async."""
    return AsyncSaver(
        directory=directory,
        keep_last=2,
        keep_best=1,
        save_every=1,
        on_error="stop",
        compress=False,
        queue_size=1,
        when_full="wait",
    )


def kill_savers(
    count: int, run: Path, make: Callable[[Path], Any], seed: int, longest_s: float = 0.1
) -> Kills:
    """Kill `count` processes within `longest_s` after their first save began; each continues the last."""
    torch.set_num_threads(1)  # OpenMP does not survive a fork
    rng = random.Random(seed)
    last = mid_save = saves = 0
    faults = {"unreadable": 0, "damaged": 0, "lost": 0, "torn": 0, "leftovers": 0}
    directory = run / "checkpoints"
    for _ in range(count):
        words = _killed(make, directory, last, rng.uniform(0.0, longest_s))
        finished = [int(word[1:]) for word in words if word[:1] == b"d"]
        begun = [int(word[1:]) for word in words if word[:1] == b"b"]
        acknowledged = max(finished, default=last)
        saves += len(finished)
        mid_save += max(begun, default=0) > acknowledged
        last = _examine(run, acknowledged, max(begun, default=last), faults)
    return Kills(count, mid_save, saves, **faults)


def _killed(make: Callable[[Path], Any], directory: Path, last: int, delay_s: float) -> list[bytes]:
    """Return the reports of a child about its saves (b: begun, d: durable) until it was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _save_for_ever(make(directory), last, writer)
        finally:
            os._exit(1)
    os.close(writer)
    report = os.read(reader, 10)
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as rest:
        return (report + rest.read()).split()


def _save_for_ever(saver: Any, step: int, pipe: int) -> None:
    live = [torch.zeros(_FLOATS) for _ in range(_TENSORS)]
    while True:
        step += 1
        os.write(pipe, b"b%d\n" % step)
        for tensor in live:  # training: the same memory changes at every step
            tensor.fill_(step)
        saver.save({"step": step, "agent": live}, frames=step, score=float(step % 7))
        os.write(pipe, b"d%d\n" % (saver.saved_frames or 0))


def _examine(run: Path, acknowledged: int, begun: int, faults: dict[str, int]) -> int:
    """Count the faults in the directory; return the step of its newest checkpoint."""
    directory = run / "checkpoints"
    faults["leftovers"] += len(list(directory.glob(".*.tmp"))) > 1
    if not list(directory.glob("step_*")):
        faults["unreadable"] += acknowledged > 0
        return 0
    with warnings.catch_warnings(record=True) as skipped:
        warnings.simplefilter("always")
        try:
            state = load(find("latest", run.parent))
        except (OSError, ValueError):
            faults["unreadable"] += 1
            state = {"step": 0, "agent": []}
    faults["damaged"] += bool(skipped)
    step = int(state["step"])
    faults["lost"] += not acknowledged <= step <= begun
    faults["torn"] += not all(bool((tensor == step).all()) for tensor in state["agent"])
    return step


class Cycles(NamedTuple):
    """Counts of the differences between killed runs and a whole one."""

    kills: int
    runs: int  # whole runs, each killed a few times
    different_leaves: int
    different_rows: int
    seconds_per_cycle: float


def kill_training(count: int, place: Path, seed: int, iterations: int = 24) -> Cycles:
    """Kill a training `count` times and start the same command again each time."""
    torch.set_num_threads(1)  # OpenMP does not survive a fork
    rng = random.Random(seed)
    total = f"total_frames={128 * iterations}"
    began = time.perf_counter()
    if _child(place / "whole", total, None) != 0:
        raise RuntimeError("the run without kills has failed")
    iteration_s = (time.perf_counter() - began) / iterations
    began, kills, runs, leaves, rows = time.perf_counter(), 0, 0, 0, 0
    while kills < count:
        run, code = place / f"killed{runs}", -signal.SIGKILL
        while code != 0:
            delay_s = rng.uniform(0.0, 8.0 * iteration_s) if kills < count else None
            code = _child(run, total, delay_s)
            kills += code == -signal.SIGKILL
            if code not in (0, -signal.SIGKILL):
                raise RuntimeError(f"{run}: exit code {code}")
        runs += 1
        leaves += len(differences(run_state(run), run_state(place / "whole")))
        rows += run_rows(run) != run_rows(place / "whole")
    return Cycles(kills, runs, leaves, rows, (time.perf_counter() - began) / max(kills, 1))


def _child(run: Path, total: str, delay_s: float | None) -> int:
    """Return the exit code of a training, killed `delay_s` after its first new checkpoint."""
    before = _newest(run)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = train(*RUN, "resume=auto", total, f"hydra.run.dir={run}")
        finally:
            os._exit(code)
    until = time.monotonic() + _TIMEOUT_S
    while delay_s is not None and _newest(run) == before and time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    if delay_s is not None:
        time.sleep(delay_s)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def train(*words: str) -> int:
    """Return the exit code of a training in this process."""
    GlobalHydra.instance().clear()
    sys.argv = ["navrl", *words]
    try:
        navrl.train.main()
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


def _newest(run: Path) -> str:
    return max((path.name for path in run.glob("checkpoints/step_*.ckpt")), default="")


def run_state(run: Path) -> dict[str, Any]:
    """Return the newest checkpoint of a run, without the counters of its loggers."""
    state = load(find(str(run), run.parent))
    return {key: value for key, value in state.items() if key != "loggers"}


def run_rows(run: Path) -> list[dict[str, float]]:
    """Return the rows of metrics.jsonl without times and memory."""
    found = read_metrics(run / "metrics.jsonl")
    return [{k: v for k, v in row.items() if not k.startswith(_UNTIMED)} for row in found]
