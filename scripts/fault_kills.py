"""kill -9 at random moments of saving: what is on disk is whole, and no older than the last finished save."""

import os
import random
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from navrl.storage.async_saver import AsyncSaver
from navrl.storage.checkpoint import load
from navrl.storage.find import find
from navrl.storage.saver import CheckpointSaver

_TENSORS, _FLOATS = 4, 65_536  # 1 MB


class Kills(NamedTuple):
    """What the kills have shown; all but the first three are to be 0."""

    kills: int
    mid_save: int  # so many of them came while a save was under way
    saves: int  # finished in all
    unreadable: int  # nothing intact, although a save had finished
    damaged: int  # a file under a final name that is not whole
    lost: int  # older than the last finished save
    torn: int  # of two different moments
    leftovers: int  # more than one temporary file


def sync_saver(directory: Path) -> Any:
    """checkpoint=sync."""
    return CheckpointSaver(
        directory=directory,
        keep_last=2,
        keep_best=1,
        save_every=1,
        on_error="stop",
        compress=False,
    )


def async_saver(directory: Path) -> Any:
    """checkpoint=async."""
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
    """Kill `count` processes within `longest_s` after their first save began; each goes on after the last."""
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
    """What a child said of its saves (b: begun, d: durable) until it was killed."""
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
    """Count what is wrong in the directory; the step of its newest checkpoint."""
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
