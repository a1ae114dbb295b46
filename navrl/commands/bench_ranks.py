"""`navrl bench --ranks 1,2`: whole trainings by numbers of processes, in turns."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from navrl.config.checks import ConfigError, require_whole
from navrl.config.compose import compose
from navrl.loggers.jsonl import read_metrics
from navrl.ranks import check_shares

_FIRST = 4  # iterations that compile, and let caches and clocks settle
_MEASURED = 16
_QUIET = (
    "logger=none",
    "console=none",
    "eval_opponents=[]",
    "eval_every=0",
    "checkpoint.save_every=1000000",
)
_PARTS = ("iteration", "collect", "gather", "update")


class Turn(NamedTuple):
    """The medians of one training: frames per second, and milliseconds of the parts of an iteration."""

    fps: float
    parts_ms: tuple[float, ...]


def add_options(parser: argparse.ArgumentParser, numbers: Callable[[str], list[int]]) -> None:
    """Add the options that `bench_ranks` reads."""
    parser.add_argument(
        "--ranks",
        type=numbers,
        metavar="N,N,...",
        help="whole trainings by so many processes instead",
    )
    parser.add_argument("--weak", action="store_true", help="with --ranks: num_envs for each rank")
    parser.add_argument(
        "--apart",
        action="store_true",
        help="with --ranks: also as many trainings at once that share nothing: the most to expect here",
    )


def bench_ranks(options: argparse.Namespace) -> None:
    """Print a row for every number of ranks; with --weak each rank has all the envs of the configuration."""
    numbers, repeats, overrides = options.ranks, options.repeats, options.overrides
    cfg = compose("train", overrides)
    for number in numbers:
        require_whole("--ranks", number, 1)
        num_envs = cfg.num_envs * number if options.weak else cfg.num_envs
        check_shares(num_envs, number, cfg.shards or number)
    sys.stdout.write(
        f"{cfg.env.name} with {cfg.agent.name}: {cfg.num_envs} envs "
        f"{'for each rank' if options.weak else 'in all'} x {cfg.rollout_steps} steps, {repeats} "
        f"turn{'s' * (repeats > 1)} of {_MEASURED} iterations\n"
    )
    rows = {str(number): (number, False) for number in numbers}
    if options.apart:
        rows |= {f"{number} apart": (number, True) for number in numbers if number > 1}
    turns: dict[str, list[Turn]] = {row: [] for row in rows}
    for turn in range(1, repeats + 1):
        for row, (number, apart) in rows.items():
            num_envs = cfg.num_envs * number if options.weak else cfg.num_envs
            found = _turn(number, apart, num_envs, cfg.rollout_steps, overrides)
            turns[row].append(found)
            sys.stderr.write(f"turn {turn} of {repeats}, ranks {row}: {found.fps:,.0f} frames/s\n")
    sys.stdout.write(_table(turns, str(numbers[0])))


def _turn(number: int, apart: bool, num_envs: int, steps: int, overrides: Sequence[str]) -> Turn:
    """Train by so many ranks, or by as many trainings of an equal part of the envs each, a core for each."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder, f"run{place}") for place in range(number if apart else 1)]
        ranks, own = (1, num_envs // number) if apart else (number, num_envs)
        started = [_started(run, ranks, own, steps, overrides) for run in runs]
        if apart and hasattr(os, "sched_setaffinity"):
            for core, process in zip(sorted(os.sched_getaffinity(0)), started, strict=False):
                os.sched_setaffinity(process.pid, [core])
        try:
            for process in started:
                _, errors = process.communicate()
                if process.returncode:
                    last = (errors.strip().splitlines() or ["the training failed"])[-1]
                    raise ConfigError(last.removeprefix("navrl: error: "))
        finally:
            for process in started:  # the others of one that failed
                process.terminate()
                process.wait()
        found = [_medians(run) for run in runs]
    fps = sum(1e3 * own * steps / parts[0] for parts in found)
    return Turn(fps, tuple(statistics.mean(column) for column in zip(*found, strict=True)))


def _started(
    run: Path, ranks: int, num_envs: int, steps: int, overrides: Sequence[str]
) -> subprocess.Popen[str]:
    frames = (_FIRST + _MEASURED) * num_envs * steps
    words = [*overrides, *_QUIET, f"ranks={ranks}", f"num_envs={num_envs}"]
    words += [f"total_frames={frames}", f"hydra.run.dir={run}"]
    command = [sys.executable, "-m", "navrl.train", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=pipe, text=True)


def _medians(run: Path) -> list[float]:
    rows = list(read_metrics(run / "metrics.jsonl"))[_FIRST:]
    return [
        1e3 * statistics.median(row.get(f"time/{part}", 0.0) for row in rows) for part in _PARTS
    ]


def _table(turns: dict[str, list[Turn]], base: str) -> str:
    lines = [
        f"{'ranks':>8} {'frames/s':>10} {'ratio':>6}   " + " ".join(f"{p:>12}" for p in _PARTS)
    ]
    first = [turn.fps for turn in turns[base]]
    for row, found in turns.items():
        fps = statistics.median(turn.fps for turn in found)
        # Turn by turn: a neighbour slows those of one turn alike.
        ratio = statistics.median(turn.fps / one for turn, one in zip(found, first, strict=True))
        parts = [
            statistics.median(column) for column in zip(*(t.parts_ms for t in found), strict=True)
        ]
        shown = " ".join(f"{part:>9.1f} ms" for part in parts)
        lines.append(f"{row:>8} {fps:>10,.0f} {ratio:>6.2f}   {shown}")
    return "\n".join(lines) + "\n"
