"""The memory that a file may fill: what is free of the machine, of the control group and of the process."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

_SHARE = 2  # the other half is for what is built from the file
_NO_LIMIT = 1 << 62
_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
# Limit, use and evictable cache of a control group, version 2 (which has no name) and version 1.
_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def usable_bytes() -> int:
    """Return the most bytes that a file and its tensors may have."""
    return min(_free_in_machine(), _free_in_process(), *_free_in_groups()) // _SHARE


def _free_in_machine() -> int:
    with contextlib.suppress(OSError, StopIteration):  # only Linux has this file
        return _entry(_PROC / "meminfo", "MemAvailable:") << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _free_in_process() -> int:
    """Return what `ulimit -v` leaves."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return _NO_LIMIT
    pages = int((_PROC / "self" / "statm").read_text().split()[0])
    return max(most - pages * os.sysconf("SC_PAGE_SIZE"), 0)


def _free_in_groups() -> Iterator[int]:
    """Yield what the limits of containers and schedulers leave: of the group and of those above it."""
    yield _NO_LIMIT
    with contextlib.suppress(OSError):
        for line in (_PROC / "self" / "cgroup").read_text().splitlines():
            _, kind, name = line.split(":", 2)
            folder = _GROUPS / kind / name.strip("/")
            for group in (folder, *folder.parents) if kind in _FILES else ():
                # A group without such a file, or with "max" in it, has no limit.
                with contextlib.suppress(OSError, ValueError, StopIteration):
                    yield _free_in_group(group, *_FILES[kind])


def _free_in_group(group: Path, limit: str, used: str, cached: str) -> int:
    most, now = (int((group / name).read_text()) for name in (limit, used))
    return max(most - now + _entry(group / "memory.stat", cached), 0)


def _entry(path: Path, name: str) -> int:
    """Return the number behind a name in a file of such lines."""
    lines = (line.split() for line in path.read_text().splitlines())
    return next(int(words[1]) for words in lines if words[0] == name)
