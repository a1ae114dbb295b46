"""Time the sum of gradients over two processes of this machine: memory that they share, and gloo.

python scripts/bench_exchange.py [--bytes 640000,60000] [--repeats 400]
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import Tensor

from navrl.ranks.group import RankGroup
from navrl.ranks.shared import shared_memory

RANKS = 2


def main() -> None:
    """Print a row for every size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--bytes", default="640000,60000", help="of a gradient; default: %(default)s"
    )
    parser.add_argument("--repeats", type=int, default=400)
    options = parser.parse_args()
    sizes = [int(size) // 4 for size in options.bytes.split(",")]
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    print(
        f"{'bytes':>12} {'shared memory, us':>20} {'gloo, us':>12}   medians of {options.repeats}"
    )
    multiprocessing.start_processes(
        measure, args=(port, sizes, options.repeats), nprocs=RANKS, start_method="spawn"
    )


def measure(rank: int, port: int, sizes: list[int], repeats: int) -> None:
    """Add rows of every size with the other process; the first one prints."""
    torch.set_num_threads(1)
    os.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[rank]])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    groups = [
        RankGroup(rank=rank, size=RANKS, shards=RANKS, memory=memory)
        for memory in (shared_memory(rank, RANKS), None)
    ]
    for size in sizes:
        row = torch.randn(size)
        found = [_median_us(group.sum_shards, row, repeats) for group in groups]
        if rank == 0:
            print(f"{4 * size:>12,} {found[0]:>20.1f} {found[1]:>12.1f}", flush=True)
    dist.destroy_process_group()


def _median_us(function: Callable[[list[Tensor]], Tensor], row: Tensor, repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        function([row])
        seconds.append(time.perf_counter() - began)
    return 1e6 * statistics.median(seconds)


if __name__ == "__main__":
    main()
