"""`navrl bench --growth N`: the growth of memory in N iterations of a whole training."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from navrl.config.checks import ConfigError, require_whole
from navrl.config.compose import compose
from navrl.loggers.jsonl import read_metrics

WARM = 30  # iterations in which allocators and caches fill
_WITHOUT = ("console=none", "eval_every=0", "eval_opponents=[]")  # what each iteration does not do


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that `bench_growth` reads."""
    parser.add_argument(
        "--growth",
        type=int,
        metavar="N",
        help="growth of memory in N iterations of a whole training instead, with its logger and saver",
    )


def bench_growth(options: argparse.Namespace) -> None:
    """Train for so many iterations in another process; print its memory, and by how much it grew."""
    require_whole("--growth", options.growth, least=2 * WARM)
    cfg = compose("train", options.overrides)
    frames = options.growth * cfg.num_envs * cfg.rollout_steps
    sys.stdout.write(
        f"{cfg.env.name} with {cfg.agent.name}: {options.growth:,} iterations of {cfg.num_envs} envs x "
        f"{cfg.rollout_steps} steps\n"
    )
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        words = [*options.overrides, *_WITHOUT, f"total_frames={frames}", f"hydra.run.dir={folder}"]
        command = [sys.executable, "-m", "navrl.train", *words]
        pipe = subprocess.PIPE
        done = subprocess.run(
            command, check=False, stdout=subprocess.DEVNULL, stderr=pipe, text=True
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["the training failed"])[-1]
            raise ConfigError(last.removeprefix("navrl: error: "))
        resident = resident_mb(Path(folder))
    warm, end = resident[WARM], resident[max(resident)]
    sys.stdout.write(
        f"resident memory: {warm:,.1f} MB after iteration {WARM}, {end:,.1f} MB at the end: "
        f"{mb_per_100_iterations(resident):+.2f} MB per 100 iterations\n"
    )


def resident_mb(run: Path) -> dict[int, float]:
    """Return the MiB that the training held after every iteration."""
    rows = read_metrics(run / "metrics.jsonl")
    name = "memory/rss_mb"
    return {int(row["iteration"]): row[name] for row in rows if name in row}


def mb_per_100_iterations(resident: dict[int, float]) -> float:
    """Return the growth by a line through all iterations but the first, in which caches fill."""
    warm = {iteration: held for iteration, held in resident.items() if iteration >= WARM}
    return 100.0 * statistics.linear_regression([*warm], [*warm.values()]).slope
