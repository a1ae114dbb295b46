"""Files that hold either the old content or the whole new content, whatever happens in between."""

import contextlib
import json
import math
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")

Part = str | bytes | bytearray | memoryview


def write_atomically(path: Path, *parts: Part) -> None:
    """Replace the content of `path` by the parts, durably.

    On any failure `path` is untouched and no temporary file stays.
    """
    try:
        _replace(path, parts)
    except OSError as error:  # which names the temporary, or nothing at all if the disk is full
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, parts: tuple[Part, ...]) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    # O_EXCL and an unguessable name: never write through a file or link that was placed there.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            for part in parts:
                _write_all(descriptor, part.encode() if isinstance(part, str) else part)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C in mid-save must not leave the temporary behind either
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(path.parent)


def _write_all(descriptor: int, part: bytes | bytearray | memoryview) -> None:
    left = memoryview(part)
    while left:  # write() may stop short: near a full disk, or beyond 2 GiB
        left = left[os.write(descriptor, left) :]


def make_directory(path: Path) -> None:
    """Create `path` and its missing parents, and make the names of all of them durable."""
    path.mkdir(parents=True, exist_ok=True)
    for parent in path.absolute().parents:
        # In a folder without write permission this user has created nothing.
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


def delete_temporaries(directory: Path) -> None:
    """Delete the temporary files of a killed writer; only for a directory with no other writer."""
    for path in directory.iterdir():
        if _TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)


def to_json(value: object, indent: int | None = None) -> str:
    """Return strict JSON, in which a number that JSON cannot hold becomes null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False, ensure_ascii=False)


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
