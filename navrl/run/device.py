"""The device, the threads and the memory of a process."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

import torch

from navrl.agents.fast.allocator import keep_freed_memory
from navrl.config.checks import ConfigError

MOST_ENVS = 1 << 20  # no machine holds more; some would swap for minutes before they say so


def pick_device(wanted: str) -> torch.device:
    """Return the device, or raise if this machine or this build of torch has none of the kind."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"device = {wanted!r}; expected auto, cpu or cuda; change device"
        ) from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError(
                f"device = {wanted}, but torch {torch.__version__} sees no GPU; expected a CUDA build "
                "of torch and a driver; use device=cpu, or see `navrl doctor`"
            )
        device = torch.device("cuda", _own_gpu() if device.index is None else device.index)
        torch.cuda.set_device(device)  # streams and events of this process belong to it
    return device


def _own_gpu() -> int:
    """Return the number of this process among the ranks of this machine, each of which has a GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def prepare_process(threads: int | None) -> None:
    """Set the number of torch's threads, unless null, and let the allocator keep freed memory."""
    keep_freed_memory()
    if threads is None:
        return
    if type(threads) is not int or threads < 1:
        raise ConfigError(f"threads = {threads}; expected 1 or more, or null; change threads")
    torch.set_num_threads(threads)


@contextlib.contextmanager
def own_threads() -> Iterator[None]:
    """Give torch the number of threads back, in the end, that it had before."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def enough_memory(name: str, number: int) -> Iterator[None]:
    """Turn an allocation that fails into one sentence about the option that is too large."""
    try:
        yield
    except RuntimeError as error:  # the CPU's has no class of its own
        if not is_out_of_memory(error):
            raise
        raise ConfigError(
            f"{name} = {number} needs more memory than there is; expected fewer; change {name}"
        ) from error


def is_out_of_memory(error: Exception) -> bool:
    """Return whether this is an allocation of torch that failed."""
    found = re.search("allocate memory|not enough memory|out of memory", str(error))
    return isinstance(error, RuntimeError) and found is not None
