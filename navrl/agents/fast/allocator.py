"""Settings of the C library's allocator that keep freed memory in the process.

By default glibc gives memory back to the system when much of the heap's end is free, and takes large blocks
from the system one by one (those above 32 MiB whatever its thresholds are): large tensors that come and go
are then mapped and zeroed page by page, again and again.
"""

import contextlib
import ctypes
import os

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of malloc.h
_KEPT_BYTES = (1 << 31) - 1  # free at the end of the heap; glibc takes no more


def keep_freed_memory() -> None:
    """Keep freed memory for later use, unless the environment has settings or the library is not glibc."""
    for name, number, value in (
        ("MALLOC_TRIM_THRESHOLD_", _TRIM_THRESHOLD, _KEPT_BYTES),
        ("MALLOC_MMAP_MAX_", _MMAP_MAX, 0),
    ):
        if name not in os.environ:
            _call("mallopt", number, value)


def give_back_freed_memory() -> None:
    """Return freed memory to the system, so that memory in use can be measured."""
    _call("malloc_trim", 0)


def _call(function: str, *arguments: int) -> None:
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        getattr(ctypes.CDLL(None), function)(*arguments)
