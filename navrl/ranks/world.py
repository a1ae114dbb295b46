"""The place of this process among those that torchrun has started, and the group that they form."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from navrl.config.checks import printable, require_whole
from navrl.ranks.group import RankGroup, Ranks, check_shares, lost_ranks
from navrl.ranks.noise import Rows, rows_of_run
from navrl.ranks.shared import SharedMemory, shared_memory
from navrl.ranks.watch import watched

# Ranks wait so long for one that evaluates; one that has died, or is silent, ends the run much earlier.
_LONGEST = datetime.timedelta(hours=24)
_memory: list[SharedMemory | None] = [None]  # of the group that this process has joined
_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container
_ARRIVAL = datetime.timedelta(minutes=5)  # until all have started


class NoMeeting(ConnectionError):  # noqa: N818 (it says what it is without a suffix)
    """The error of a rank that has not found the others at the start."""


def world() -> tuple[int, int]:
    """Return the number of this process among those that torchrun has started, and how many they are."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def is_follower() -> bool:
    """Return whether this process belongs to a run whose directory is that of another process."""
    return world()[0] > 0


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """Be in the group of all ranks while open; alone there is none."""
    rank, size = world()
    if size == 1:
        yield
        return
    _take_cores()
    with _meeting(size - 1):
        from torch.distributed.rendezvous import rendezvous  # where torch has it

        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        store, *_ = next(rendezvous("env://", rank, size, timeout=_ARRIVAL))
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_LONGEST)
    with watched(rank, size):
        with lost_ranks():
            _memory[:] = [shared_memory(rank, size)]
        yield
    # Not after an error: it would wait for the others.
    dist.destroy_process_group()


@contextlib.contextmanager
def _meeting(others: int) -> Iterator[None]:
    """Turn torch's errors about a place where ranks do not meet into one sentence."""
    place = ":".join(os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
    try:
        yield
    except (RuntimeError, ValueError, OSError) as error:
        reason = printable(str(error).splitlines()[0])[:160]
        raise NoMeeting(
            f"the {others} other ranks were not met at {place} ({reason}); expected all within "
            f"{_ARRIVAL.total_seconds():.0f} s at a free port that every host reaches; start all with "
            "torchrun and one --rdzv-endpoint"
        ) from error


def ranks_of(num_envs: int, shards: int | None) -> Ranks:
    """Return the ranks of a run of so many envs and shards; raise ConfigError unless they divide evenly."""
    rank, size = world()
    if shards is None:
        shards = size
    require_whole("shards", shards, 1)
    check_shares(num_envs, size, shards)
    if size == 1:
        return Ranks(shards=shards)
    return RankGroup(rank=rank, size=size, shards=shards, memory=_memory[0])


@contextlib.contextmanager
def own_rows(ranks: Ranks, num_envs: int) -> Iterator[None]:
    """Draw the random numbers of policies for all envs of the run while open, and take those of the own."""
    if ranks.shards == 1:
        yield
        return
    own = num_envs // ranks.size
    with rows_of_run(Rows(ranks.rank * own, own, num_envs, piece=num_envs // ranks.shards)):
        yield


def cores() -> int:
    """Return how many cores this process may use, at most what a container allows it in time."""
    number = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        number = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):  # no quota: "max"
        quota, period = _QUOTA.read_text(encoding="ascii").split()
        number = min(number, max(1, int(quota) // int(period)))
    return number


def idle_cores() -> int:
    """Return how many of these cores others left idle in the last minute, at least one."""
    if not hasattr(os, "getloadavg"):
        return cores()
    share = cores() / (os.cpu_count() or 1)  # of the machine, whose load it is
    return max(1, round(cores() - share * os.getloadavg()[0]))


def _take_cores() -> None:
    """Keep this process to its share of the cores, if there is at least one for each rank of this machine."""
    local, number = (int(os.environ.get(name, "1")) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    each = cores() // number
    if each and hasattr(os, "sched_setaffinity"):
        own = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, own[local * each : (local + 1) * each])
