"""Disks that fail at a random moment: the save fails by name, and earlier checkpoints stay."""

import contextlib
import errno
import os
import random
import resource
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from navrl.storage.checkpoint import verify_or_warn
from navrl.storage.info import checkpoint_files

_OPERATIONS = ("open", "write", "fsync", "replace")
_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
_MOST_BYTES = 24_000  # a little more than such a file has

Fault = Callable[[random.Random], contextlib.AbstractContextManager[None]]


class Failures(NamedTuple):
    """Counts of losses by the failures; all but the first three have to be 0."""

    runs: int
    refused: int  # saves that raised OSError
    unhurt: int  # saves that had ended before the operation was due
    lost: int  # valid checkpoints that are gone, beyond what retention deletes
    damaged: int  # files under a final name that are not whole
    other: int  # exceptions that are no OSError
    stuck: int  # the next save, with room again, failed


@contextlib.contextmanager
def full_disk(operation: str, nth: int, number: int, *, short: bool = False) -> Iterator[None]:
    """Let an operation of `os` fail from its nth call on; a short write writes half first."""
    real: Callable[..., Any] = getattr(os, operation)
    calls = 0

    def failing(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and short:
            return real(arguments[0], arguments[1][: max(1, len(arguments[1]) // 2)])
        if calls >= nth and not _reads(operation, arguments):
            raise OSError(number, os.strerror(number))
        return real(*arguments, **options)

    setattr(os, operation, failing)
    try:
        yield
    finally:
        setattr(os, operation, real)


@contextlib.contextmanager
def file_limit(most_bytes: int) -> Iterator[None]:
    """Limit the size of files: write() stops short, then fails with EFBIG (Python ignores SIGXFSZ)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def some_operation(rng: random.Random) -> contextlib.AbstractContextManager[None]:
    """Draw an operation of `os` that fails from some call on."""
    operation = rng.choice(_OPERATIONS)
    nth = rng.randrange(1, 12) if operation == "write" else rng.randrange(1, 4)
    short = operation == "write" and rng.random() < 0.5
    return full_disk(operation, nth, rng.choice(_ERRORS), short=short)


def some_limit(rng: random.Random) -> contextlib.AbstractContextManager[None]:
    """Draw a limit of the system: mostly within the file, sometimes not even a pointer fits."""
    return file_limit(rng.randrange(_MOST_BYTES) if rng.random() < 0.9 else rng.randrange(200))


def meet(count: int, place: Path, make: Callable[[Path], Any], fault: Fault, seed: int) -> Failures:
    """Let `count` savers meet such a fault in their third save."""
    rng = random.Random(seed)
    totals = dict.fromkeys(Failures._fields[1:], 0)
    for run in range(count):
        directory = place / f"full{run}"
        with make(directory) as saver:
            _one(saver, fault(rng), totals)
        shutil.rmtree(directory)
    return Failures(count, **totals)


def _one(
    saver: Any, fault: contextlib.AbstractContextManager[None], totals: dict[str, int]
) -> None:
    for step in (1, 2):
        _save(saver, step)
    before = {path.name for path in checkpoint_files(saver.directory)}
    with fault:
        try:
            _save(saver, 3)
            totals["unhurt"] += 1
        except OSError:
            totals["refused"] += 1
        except Exception:  # noqa: BLE001 (any other exception is counted)
            totals["other"] += 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {path.name: verify_or_warn(path) for path in checkpoint_files(saver.directory)}
    intact = {name for name, info in found.items() if info is not None}
    totals["damaged"] += len(found) - len(intact)
    kept = len(intact & before) + (len(intact) > len(intact & before))
    totals["lost"] += max(0, 2 - kept)  # keep_last=2: one may go once the third is there
    try:
        _save(saver, 4)
        totals["stuck"] += saver.saved_frames != 4
    except OSError:
        totals["stuck"] += 1


def _save(saver: Any, step: int) -> None:
    """Save, and wait until it is on the disk."""
    saver.save({"agent": torch.full((4096,), float(step))}, frames=step, score=None)
    saver.flush()


def _reads(operation: str, arguments: tuple[Any, ...]) -> bool:
    return operation == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR)
