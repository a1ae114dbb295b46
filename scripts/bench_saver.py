"""Measure the cost of saving to the training thread: a snapshot, and training while a big state is written.

.venv/bin/python scripts/bench_saver.py [--saves 300] [--pairs 40]
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from navrl.storage.async_saver import AsyncSaver
from timing import parser

_LEAVES = 174  # as many as two networks of five layers, with Adam, and an env have
_MATRIX, _ROWS = 256, 2048  # the stand-in for training: a few layers forward and backward


def main() -> None:
    """Print both tables."""
    options_parser = parser(__doc__)
    options_parser.add_argument("--saves", type=int, default=300, help="snapshots of each size")
    options_parser.add_argument(
        "--pairs", type=int, default=40, help="spells with and without writing"
    )
    options = options_parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for number, size_mb in enumerate((2, 10, 100)):
            saves = max(20, options.saves // (1 if size_mb < 100 else 10))
            print(snapshots(Path(folder, str(number)), size_mb, saves), flush=True)
        print(slowdown(Path(folder, "background"), options.pairs), flush=True)


def state_of(size_mb: float) -> dict[str, Any]:
    """Return a training state with so many megabytes of float32."""
    floats = int(size_mb * 1e6 / 4 / _LEAVES)
    return {"agent": {f"leaf{i}": torch.randn(floats) for i in range(_LEAVES)}, "iteration": 1}


def saver_in(directory: Path, when_full: str) -> AsyncSaver:
    """Return checkpoint=async with every save due."""
    return AsyncSaver(
        directory=directory,
        keep_last=1,
        keep_best=0,
        save_every=1,
        on_error="stop",
        compress=False,
        queue_size=1,
        when_full=when_full,
    )


def snapshots(directory: Path, size_mb: float, saves: int) -> str:
    """Return milliseconds of save() in the calling thread, while nothing else is being written."""
    state, seconds = state_of(size_mb), []
    with saver_in(directory, "wait") as saver:
        for frames in range(saves + 4):  # the first ones allocate
            began, spent = time.perf_counter(), time.thread_time()
            saver.save(state, frames=frames, score=None)
            seconds.append((time.thread_time() - spent, time.perf_counter() - began))
            saver.flush()
    own, walls = (
        sorted(1000.0 * value for value in column) for column in zip(*seconds[4:], strict=True)
    )
    limit = 5.0 + max(0.0, size_mb - 2.0)
    return (
        f"snapshot of {size_mb:>3} MB: median {statistics.median(own):.2f} ms, p99 {p99(own):.2f} ms of the "
        f"thread's CPU time; wall clock median {statistics.median(walls):.2f} ms, p99 {p99(walls):.2f} ms; "
        f"{saves} of them; limit of p99 {limit:.0f} ms"
    )


def p99(ordered: list[float]) -> float:
    """Return the 99th percentile of sorted numbers."""
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def slowdown(directory: Path, pairs: int) -> str:
    """Return the slowdown of training while 100 MB are written, in alternating spells.

    With and without the time in which the thread could run and had no core, which other processes cause on a
    shared machine; waiting for the interpreter's lock counts in both.
    """
    state, work = state_of(100.0), training()
    with saver_in(directory, "drop_oldest") as saver:
        for warm in range(3):
            work()
            saver.save(state, frames=warm, score=None)
        ratios: dict[str, list[float]] = {"wall": [], "on a core": []}
        for pair in range(pairs):
            saver.flush()
            quiet = spell(work)
            saver.save(state, frames=10 + pair, score=None)
            busy = spell(work)
            for kind, before, after in zip(ratios, quiet, busy, strict=True):
                ratios[kind].append(after / before)
    wall, own = (100.0 * (statistics.median(values) - 1.0) for values in ratios.values())
    return (
        f"training while 100 MB are written: {own:+.1f} %, with waiting for a core {wall:+.1f} % (medians "
        f"of {pairs} alternating pairs); limit 2 %"
    )


def queued_s() -> float:
    """Return the seconds that this thread has waited for a core, since it began."""
    text = Path("/proc/thread-self/schedstat").read_text(encoding="utf-8")
    return int(text.split()[1]) / 1e9


def training() -> Callable[[], None]:
    """Return a function that runs one iteration of something like learning, without a saver."""
    net = torch.nn.Sequential(*(torch.nn.Linear(_MATRIX, _MATRIX) for _ in range(4)))
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    rows = torch.randn(_ROWS, _MATRIX)

    def work() -> None:
        optimizer.zero_grad()
        net(rows).square().mean().backward()
        optimizer.step()

    return work


def spell(work: Callable[[], None], iterations: int = 20) -> tuple[float, float]:
    """Return seconds of so many iterations, with and without the waiting for a core."""
    began, queued = time.perf_counter(), queued_s()
    for _ in range(iterations):
        work()
    queued = queued_s() - queued
    wall = time.perf_counter() - began
    return wall, wall - queued


if __name__ == "__main__":
    main()
