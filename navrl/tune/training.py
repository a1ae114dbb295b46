"""A training of a trial: a process of its own in a folder of its own, watched through metrics.jsonl."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from navrl.config.quoting import override
from navrl.config.signals import PARENT, blocked
from navrl.loggers.jsonl import numbers, read_iterations
from navrl.run.lock import RunDirectoryError, RunLock
from navrl.run.status import has_finished
from navrl.storage.files import make_directory, open_regular, read_json, read_text
from navrl.storage.info import checkpoint_files
from navrl.tune.plan import REPORTS, SILENT, Plan

_POLL_S = 0.5
_PATIENCE_S = 60.0  # for a training that saves before it ends
_LOG = "output.log"
_QUIET = {"logger": "logger=none", "console": "console=lines"}  # unless the user says otherwise


class TrainingFailed(RuntimeError):  # noqa: N818 (it says what it is without a suffix)
    """The error of a training, in the sentence that it printed."""


class Progress(NamedTuple):
    """The frames and values of a training so far."""

    frames: int
    cpu_s: float  # the median of an iteration, times iterations: no compiling, no start of Python
    values: dict[int, float]  # of the metric, by tenth of the training


def train(plan: Plan, words: Sequence[str], folder: Path, watch: Callable[[], bool]) -> bool:
    """Train in `folder`, or go on there; return whether it came to its end.

    `watch` is called while it trains, and ends it by returning True.
    """
    return has_finished(folder) or train_on(plan, words, folder, watch)


def train_on(
    plan: Plan,
    words: Sequence[str],
    folder: Path,
    watch: Callable[[], bool],
    source: Path | None = None,
) -> bool:
    """Train as `train` does, also in a run that had finished; a new one continues from `source`."""
    make_directory(folder)
    _wait_for(folder)
    resume = "resume=auto"
    if source is not None and not _has_saved(folder):
        shutil.rmtree(folder)  # a run that was killed before its first save
        make_directory(folder)
        resume = override("resume", source)
    with _child(_command(plan, [*words, resume], folder), folder) as process:
        while process.poll() is None:
            if watch():
                return False
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
    if process.returncode or not has_finished(folder):
        raise TrainingFailed(_last_sentence(folder, process.returncode))
    return True


def read_progress(plan: Plan, folder: Path) -> Progress:
    """Return how far the training in that folder is; nothing is known before its first iteration."""
    log = folder / "metrics.jsonl"
    try:
        rows = read_iterations(log)
    except FileNotFoundError:
        rows = []
    if not rows:
        return Progress(0, 0.0, {})
    frames = int(rows[-1]["frames"])
    seconds = [row["time/cpu"] for row in rows if row.get("time/cpu", math.nan) >= 0.0]
    cpu_s = median(seconds) * len(rows) if seconds else math.nan
    return Progress(frames, cpu_s, _values(plan, rows, frames))


def final_score(plan: Plan, folder: Path) -> float:
    """Return what the train command returns: the mean of the final evaluations, nan without any."""
    found = read_json(folder / "summary.json")
    summary = numbers(found) if isinstance(found, dict) else {}
    ends = [
        value
        for name, value in summary.items()
        if name.startswith("eval/") and name.count("/") == 2 and name.endswith(f"/{plan.objective}")
    ]
    return fmean(ends) if ends else summary.get(f"episode/{plan.objective}", math.nan)


def _values(plan: Plan, rows: Sequence[dict[str, float]], frames: int) -> dict[int, float]:
    """Return the mean of the metric over every tenth that is over; episodes count alike."""
    found: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        value = row.get(plan.metric, math.nan)
        if math.isfinite(value):
            tenth = min(math.ceil(REPORTS * row["frames"] / plan.total_frames - 1e-9), REPORTS)
            weight = row.get("episode/count", 1.0) if plan.metric.startswith("episode/") else 1.0
            found.setdefault(max(tenth, 1), []).append((value, weight))
    done = [
        tenth for tenth in found if tenth > SILENT and frames * REPORTS >= tenth * plan.total_frames
    ]
    return {
        tenth: sum(value * weight for value, weight in found[tenth])
        / sum(weight for _, weight in found[tenth])
        for tenth in sorted(done)
        if sum(weight for _, weight in found[tenth]) > 0.0
    }


def _command(plan: Plan, words: Sequence[str], folder: Path) -> list[str]:
    """Return the command of the training; it goes on with what a killed one has saved."""
    typed = plan.options.overrides
    keys = {word.lstrip("+~").partition("=")[0] for word in typed}
    own = [word for key, word in _QUIET.items() if key not in keys]
    conf = plan.options.config_dir
    place = [] if conf is None else ["--config-dir", str(conf)]
    last = override("hydra.run.dir", folder)
    return [sys.executable, "-m", "navrl.train", *place, *own, *typed, *words, last]


@contextlib.contextmanager
def _child(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process; whatever ends the block, or this process, also ends it, and it saves before."""
    log = open_regular(folder / _LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with blocked():  # until the child can answer
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                env={**os.environ, PARENT: str(os.getpid())},
            )
    finally:
        os.close(log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _has_saved(folder: Path) -> bool:
    checkpoints = folder / "checkpoints"
    return checkpoints.is_dir() and bool(checkpoint_files(checkpoints))


def _wait_for(folder: Path) -> None:
    """Wait until the training of a worker that was killed has saved and left the folder."""
    while True:
        try:
            RunLock(folder).release()
        except RunDirectoryError:
            time.sleep(_POLL_S)
        else:
            return


def _last_sentence(folder: Path, code: int) -> str:
    """Return the reason that the training printed, or its exit code."""
    lines = read_text(folder / _LOG).splitlines()
    printed = [line for line in lines if line.startswith("navrl: ") and "warning" not in line]
    reason = printed[-1].removeprefix("navrl: ").removeprefix("error: ") if printed else ""
    return reason or f"the training ended with exit code {code} (see {folder / _LOG})"
