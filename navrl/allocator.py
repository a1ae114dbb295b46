"""The C library's allocator, told to keep what it gets.

By default glibc gives large tensors back to the system as soon as they are freed, and every new one is then
mapped and zeroed page by page: a quarter of a PPO update on a CPU was that.
"""

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of malloc.h
_KEPT_BYTES = 1 << 30  # at the top of the heap
_LARGEST_BYTES = 1 << 25  # of what comes from the heap; glibc allows no more


def keep_freed_memory() -> None:
    """Hold up to a GiB of freed memory for what comes next; nothing where the library is not glibc."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGEST_BYTES)
