"""Memory that the ranks of one machine share: a collective takes microseconds, with gloo milliseconds.

gloo sends through sockets, and every message wakes a thread, which takes longer than the gradient of a small
network. Here a rank writes its numbers into its own place, counts up, and waits for the others' counts. Each
rank has a core of its own, so it waits by looking. There are two places for each rank, in turns: a rank that
writes again into the first has seen that all had read it, because they have all written the second.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

_PLACE_BYTES = 1 << 22  # larger tensors go through in pieces
_LINE = 8  # counts are as far apart as lines of the cache: 8 numbers of 8 bytes
_LOOK_S, _NAP_S = 2e-3, 5e-5  # a rank looks without a pause for so long, and then in between naps
_ALIVE_EVERY_S = 0.1


class SharedMemory:
    """The places and counts of all ranks; `all_gather` is a collective, which all call in the same order."""

    def __init__(self, memory: mmap.mmap, rank: int, pids: Sequence[int]) -> None:
        self.rank, self.size = rank, len(pids)
        counts = self.size * _LINE * 8
        lines = np.frombuffer(memory, np.int64, self.size * _LINE)
        self._counts = lines[::_LINE]
        self._lengths = lines[1::_LINE], lines[2::_LINE]  # of the pieces, in turns as they are
        places = torch.frombuffer(memory, dtype=torch.uint8, offset=counts)
        self._places = places.view(2, self.size, _PLACE_BYTES)
        self._done = 0
        self._alive = select.poll()
        for other, pid in enumerate(pids):
            if other != rank:
                self._alive.register(
                    os.pidfd_open(pid), select.POLLIN
                )  # readable once it has ended

    def all_gather(self, own: Tensor) -> Tensor:
        """Return the tensors of all ranks (ranks, ...)."""
        sent = own.contiguous().reshape(-1).view(torch.uint8)
        whole = torch.empty(self.size, len(sent), dtype=torch.uint8)
        for start in range(0, len(sent), _PLACE_BYTES):
            piece = sent[start : start + _PLACE_BYTES]
            whole[:, start : start + len(piece)] = self._exchange([piece])
        return whole.view(own.dtype).view(self.size, *own.shape)

    def sum(self, own: Sequence[Tensor]) -> Tensor:
        """Return the sum of the rows (n,) of all ranks, in their order, read where they were written."""
        total = torch.empty_like(own[0])
        most = _PLACE_BYTES // len(own) // total.element_size()
        for start in range(0, len(total), most):
            parts = [row[start : start + most].view(torch.uint8) for row in own]
            places = self._exchange(parts).view(total.dtype)
            first, *others = (row for place in places for row in place.view(len(own), -1))
            piece = total[start : start + most]
            torch.add(first, others[0], out=piece)
            for row in others[1:]:
                piece += row
        return total

    def _exchange(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the bytes of all ranks, where they stay until the next exchange but one."""
        self._done += 1
        length = sum(map(len, parts))
        places = self._places[self._done % 2, :, :length]
        torch.cat(tuple(parts), out=places[self.rank])
        lengths = self._lengths[self._done % 2]
        lengths[self.rank] = length
        self._counts[self.rank] = self._done  # after the bytes: x86 keeps the order of writes
        if self._counts.min() < self._done:
            self._wait()
        if (lengths != length).any():
            raise RuntimeError("ranks are out of step: they exchange different things")
        return places

    def _wait(self) -> None:
        """Return once all ranks have written; raise ConnectionError if one has ended."""
        began = looked = time.monotonic()
        while self._counts.min() < self._done:
            now = time.monotonic()
            if now - began > _LOOK_S:
                time.sleep(_NAP_S)
            if now - looked > _ALIVE_EVERY_S:
                looked = now
                if self._alive.poll(0) and self._counts.min() < self._done:
                    raise ConnectionError("a process has ended")


def shared_memory(rank: int, size: int) -> SharedMemory | None:
    """Return memory for all ranks; None unless they are of one machine that can share it so."""
    every: list[Any] = [None] * size
    dist.all_gather_object(every, (machine(), os.getpid()))
    hosts, pids = {host for host, _ in every}, [pid for _, pid in every]
    if len(hosts) > 1 or None in hosts:
        return None
    num_bytes = size * _LINE * 8 + 2 * size * _PLACE_BYTES
    with contextlib.ExitStack() as stack:
        box: list[Any] = [_made(num_bytes, stack) if rank == 0 else None]
        dist.broadcast_object_list(box, src=0)
        found = None
        if box[0] is not None:
            with contextlib.suppress(OSError, ValueError):
                memory = _opened(f"/proc/{pids[0]}/fd/{box[0].descriptor}", box[0], stack)
                found = SharedMemory(mmap.mmap(memory, num_bytes), rank, pids)
        # Also: rank 0 keeps it open until all have it.
        dist.all_gather_object(every, found is not None)
    return found if all(every) else None


def shares_memory() -> bool:
    """Return whether this process could share memory with others of its machine."""
    with contextlib.ExitStack() as stack:
        try:
            os.close(os.pidfd_open(os.getpid()))
        except (OSError, AttributeError):
            return False
        return machine() is not None and _made(mmap.PAGESIZE, stack) is not None


def machine() -> str | None:
    """Return what tells this machine and its processes from others; None where memory is not shared."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None  # of a container that sees the processes of its host under other numbers
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


class _Memory(NamedTuple):
    """Memory without a name: nobody else finds it, and it ends with the processes."""

    descriptor: int  # of rank 0
    device: int
    inode: int


def _made(num_bytes: int, stack: contextlib.ExitStack) -> _Memory | None:
    """Make memory that is open as long as the stack is; None where the system refuses it."""
    try:
        descriptor = os.memfd_create("navrl")
        stack.callback(os.close, descriptor)
        os.ftruncate(descriptor, num_bytes)
    except OSError:
        return None
    status = os.fstat(descriptor)
    return _Memory(descriptor, status.st_dev, status.st_ino)


def _opened(path: str, made: _Memory, stack: contextlib.ExitStack) -> int:
    """Open the memory of rank 0; raise OSError about any other file.

    In two containers one path may mean two files, and opening a device may do something.
    """
    status = os.stat(path)
    if (status.st_dev, status.st_ino) != (made.device, made.inode):
        raise FileNotFoundError(path)
    memory = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    stack.callback(os.close, memory)
    return memory
