"""`navrl bench --ranks 1,2`: whole trainings by numbers of processes, in turns."""

from __future__ import annotations

import argparse
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


def bench_ranks(options: argparse.Namespace) -> None:
    """Print a row for every number of ranks; with --weak each rank has all the envs of the configuration."""
    numbers, repeats, overrides = options.ranks, options.repeats, options.overrides
    for number in numbers:
        require_whole("--ranks", number, 1)
    cfg = compose("train", overrides)
    sys.stdout.write(
        f"{cfg.env.name} with {cfg.agent.name}: {cfg.num_envs} envs "
        f"{'for each rank' if options.weak else 'in all'} x {cfg.rollout_steps} steps, {repeats} turns of "
        f"{_MEASURED} iterations\n"
    )
    turns: dict[int, list[Turn]] = {number: [] for number in numbers}
    for _ in range(repeats):
        for number in numbers:
            num_envs = cfg.num_envs * number if options.weak else cfg.num_envs
            turns[number].append(_turn(number, num_envs, cfg.rollout_steps, overrides))
    sys.stdout.write(_table(turns, numbers[0]))


def _turn(ranks: int, num_envs: int, steps: int, overrides: Sequence[str]) -> Turn:
    frames = (_FIRST + _MEASURED) * num_envs * steps
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        words = [*overrides, *_QUIET, f"ranks={ranks}", f"num_envs={num_envs}"]
        words += [f"total_frames={frames}", f"hydra.run.dir={run}"]
        command = [sys.executable, "-m", "navrl.train", *words]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["the training failed"])[-1]
            raise ConfigError(last.removeprefix("navrl: error: "))
        rows = list(read_metrics(run / "metrics.jsonl"))[_FIRST:]
    parts = [1e3 * statistics.median(row.get(f"time/{p}", 0.0) for row in rows) for p in _PARTS]
    return Turn(1e3 * num_envs * steps / parts[0], tuple(parts))


def _table(turns: dict[int, list[Turn]], base: int) -> str:
    lines = [
        f"{'ranks':>5} {'frames/s':>10} {'ratio':>6}   " + " ".join(f"{p:>12}" for p in _PARTS)
    ]
    first = [turn.fps for turn in turns[base]]
    for number, found in turns.items():
        fps = statistics.median(turn.fps for turn in found)
        # Turn by turn: a neighbour slows those of one turn alike.
        ratio = statistics.median(turn.fps / one for turn, one in zip(found, first, strict=True))
        parts = [
            statistics.median(column) for column in zip(*(t.parts_ms for t in found), strict=True)
        ]
        shown = " ".join(f"{part:>9.1f} ms" for part in parts)
        lines.append(f"{number:>5} {fps:>10,.0f} {ratio:>6.2f}   {shown}")
    return "\n".join(lines) + "\n"
