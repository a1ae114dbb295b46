"""kill -9 and the same command again: a run ends with the bits of one that nobody killed."""

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from hydra.core.global_hydra import GlobalHydra

import navrl.train
from navrl.loggers.jsonl import read_metrics
from navrl.storage.checkpoint import load
from navrl.storage.compare import differences
from navrl.storage.find import find

_RUN = (
    *(
        "experiment=debug",
        "logger=none",
        "console=none",
        "eval_opponents=[]",
        "env.sim.tick_s=0.25",
    ),
    *("checkpoint=async", "checkpoint.save_every=1", "resume=auto"),
)
_UNTIMED = ("time/", "memory/", "saver/")
_TIMEOUT_S = 120.0


class Cycles(NamedTuple):
    """What the killed runs have come to."""

    kills: int
    runs: int  # whole runs that the kills were spread over
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
        raise RuntimeError("the run that nobody kills has failed")
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
        leaves += len(differences(_state(run), _state(place / "whole")))
        rows += _rows(run) != _rows(place / "whole")
    return Cycles(kills, runs, leaves, rows, (time.perf_counter() - began) / max(kills, 1))


def _child(run: Path, total: str, delay_s: float | None) -> int:
    """The exit code of a training, killed `delay_s` after its first new checkpoint unless that is None."""
    before = _newest(run)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = _train(run, total)
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


def _train(run: Path, total: str) -> int:
    GlobalHydra.instance().clear()
    sys.argv = ["navrl", *_RUN, total, f"hydra.run.dir={run}"]
    try:
        navrl.train.main()
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


def _newest(run: Path) -> str:
    return max((path.name for path in run.glob("checkpoints/step_*.ckpt")), default="")


def _state(run: Path) -> dict[str, Any]:
    state = load(find(str(run), run.parent))
    return {key: value for key, value in state.items() if key != "loggers"}


def _rows(run: Path) -> list[dict[str, float]]:
    found = read_metrics(run / "metrics.jsonl")
    return [{k: v for k, v in row.items() if not k.startswith(_UNTIMED)} for row in found]
