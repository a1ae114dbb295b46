"""python -m peers.until SHARE SEED,SEED NAME,NAME:own [KEY=VALUE ...]: scripts/bench_peers.py runs this."""

import contextlib
import importlib
import itertools
import statistics
import sys
import time
from typing import Any, NamedTuple

import torch

from navrl.run.device import prepare_process
from navrl.run.intervals import Interval
from peers.fights import Fights, Wins, configuration, work_of

TASK = ("opponent=crank", "total_frames=8_000_000")
LATEST = 1000  # episodes
WARMING = 3  # iterations, in which something may compile


class Training(NamedTuple):
    """The end of a training: enough wins, or no frames left."""

    seconds: float  # of processor time
    frames: int
    wins: Interval


def main() -> None:
    """Train with every seed by every library, with navrl's settings or its own; then print medians."""
    share, seeds, names = float(sys.argv[1]), sys.argv[2].split(","), sys.argv[3].split(",")
    prepare_process(threads=1)
    trainings: dict[str, list[Training]] = {name: [] for name in names}
    for seed, name in itertools.product(seeds, names):
        library, _, own = name.partition(":")
        module = importlib.import_module(f"peers.{library}")
        options = [*TASK, *sys.argv[4:], f"seed={seed}"]
        trainings[name].append(train(module, options, share, own=own == "own"))
        sys.stdout.write(line(f"{name}, seed {seed}", trainings[name][-1], share))
        sys.stdout.flush()
    for name, ends in trainings.items():
        slowest_last = sorted(ends, key=lambda end: (end.wins.mean < share, end.seconds))
        sys.stdout.write(line(f"{name}, median", slowest_last[len(ends) // 2], share))


def train(module: Any, options: list[str], share: float, *, own: bool) -> Training:
    """Learn until enough of the latest episodes are won."""
    settings = module.OWN if own else {}
    cfg = configuration([*settings.get("options", ()), *options])
    work = work_of(cfg)._replace(own=own, **settings.get("work", {}))
    iterations = -(-cfg.total_frames // work.frames)
    torch.manual_seed(cfg.seed)
    wins = Fights.watcher = Wins(LATEST)
    seconds: list[float] = []
    with contextlib.redirect_stdout(sys.stderr):  # some print their networks
        contestant = module.Contestant(cfg, work)
        while not wins.interval.mean >= share and len(seconds) < iterations:
            began = time.process_time()
            contestant.iterate()
            seconds.append(time.process_time() - began)
    usual = statistics.median(seconds[WARMING:])
    total = sum(usual if number < WARMING else took for number, took in enumerate(seconds))
    return Training(total, len(seconds) * work.frames, wins.interval)


def line(name: str, end: Training, share: float) -> str:
    """Return a row of the table."""
    wins = end.wins
    shown = f"{wins.mean:.3f} ({wins.low:.3f} .. {wins.high:.3f})"
    missed = "" if wins.mean >= share else "  not reached"
    return f"{name:<34}{end.seconds:>8.1f} CPU s{end.frames:>12,} frames  won {shown}{missed}\n"


if __name__ == "__main__":
    main()
