"""Files that are either the old one or the whole new one, whatever happens in between."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")


def replace_file(path: Path, parts: Iterable[bytes | bytearray | memoryview]) -> None:
    """Make `path` hold the parts, durably; on any failure `path` is untouched and no temp stays."""
    try:
        _replace(path, parts)
    except OSError as error:  # which names the temporary, or nothing at all if the disk is full
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, parts: Iterable[bytes | bytearray | memoryview]) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    # O_EXCL and an unguessable name: never write through a file or link somebody placed there.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            for part in parts:
                _write_all(descriptor, part)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C in mid-save must not leave the temp behind either
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Create `path` and its missing parents, durably; also those that somebody has just made."""
    path.mkdir(parents=True, exist_ok=True)
    for parent in path.absolute().parents:
        # In a folder that we may not write to nobody of us has made anything.
        if not os.access(parent, os.R_OK | os.W_OK):
            break
        sync_directory(parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: without it a rename may be lost in a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(directory: Path) -> None:
    """Delete the temporaries of a killed writer; only for a directory with no other writer."""
    for path in directory.iterdir():
        if _TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _write_all(descriptor: int, part: bytes | bytearray | memoryview) -> None:
    left = memoryview(part)
    while left:  # write() may stop short: near a full disk, or beyond 2 GiB
        left = left[os.write(descriptor, left) :]
