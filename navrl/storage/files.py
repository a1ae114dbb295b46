"""Files that hold either the old content or the whole new content, in folders that may be hostile.

A run directory may come from elsewhere, such as an archive. So nothing below it that is a link, a pipe or a
device is written to or read; the path to it is the user's own and may hold links.
"""

import contextlib
import errno
import json
import math
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
_MOST_BYTES = 16 << 20  # of a file that is read as a whole; what navrl writes is far smaller
_WRITING = os.O_WRONLY | os.O_RDWR

Part = str | bytes | bytearray | memoryview


class UnsafePath(OSError):  # noqa: N818 (the name is clear without a suffix)
    """A name in a run directory that leads to something else; the message is one sentence for the user."""

    def __init__(self, path: Path, fault: str, expected: str) -> None:
        super().__init__(
            f"{str(path)!r} is {fault}; expected {expected} of the run itself; "
            "remove it, or put a copy of what it leads to in its place"
        )


def open_regular(path: Path, flags: int) -> int:
    """Return a descriptor of the regular file at `path`; never follow a link, never wait for a pipe.

    A file that is opened for writing must have no second name (a hard link), which may be elsewhere.
    """
    try:
        # O_NONBLOCK concerns pipes and devices only; they are refused below.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        fault = _fault(os.lstat(path), flags)
        if fault:
            raise UnsafePath(path, fault, "a file") from error
        raise
    fault = _fault(os.fstat(descriptor), flags)
    if fault:
        os.close(descriptor)
        raise UnsafePath(path, fault, "a file")
    return descriptor


def _fault(status: os.stat_result, flags: int) -> str:
    """Return what is wrong with a file that is to be opened, or nothing."""
    if stat.S_ISLNK(status.st_mode):
        return "a link"
    if not stat.S_ISREG(status.st_mode):
        return "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
    return "a hard link to another file" if flags & _WRITING and status.st_nlink > 1 else ""


def append_line(path: Path, line: str) -> None:
    """Add a line to the regular file at `path`, which is created if there is none."""
    descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        _write_all(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def read_foreign(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a small file that the user names; raise OSError if it is none.

    A link is followed, for the path is the user's own. A pipe is not waited for, and no device is read.
    """
    _require_readable(path, path.stat(), most_bytes)  # for opening some devices does something
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        _require_readable(path, os.fstat(file.fileno()), most_bytes)
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:  # it grew, or it is a file of the kernel, whose size is 0
        raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes", str(path))
    return content


def _require_readable(path: Path, status: os.stat_result, most_bytes: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device; expected a file", str(path))
    if status.st_size > most_bytes:
        fault = f"it has {status.st_size:,} bytes; expected at most {most_bytes:,}"
        raise OSError(errno.EFBIG, fault, str(path))


def read_text(path: Path, most_bytes: int = _MOST_BYTES) -> str:
    """Return the text of the regular file at `path`; raise ValueError if it is too large or not UTF-8."""
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"{path} has more than {most_bytes:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8") from error


def read_json(path: Path) -> Any:
    """Return the value in a small JSON file; raise ValueError if it holds none."""
    return parse_json(read_text(path))


def parse_json(text: str | bytes) -> Any:
    """Return the value of untrusted JSON; raise ValueError for anything wrong with it."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def write_atomically(path: Path, *parts: Part) -> None:
    """Replace the content of `path` by the parts, durably.

    On any failure `path` is untouched and no temporary file stays.
    """
    try:
        _replace(path, parts)
    except OSError as error:  # which names the temporary, or nothing at all if the disk is full
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, parts: tuple[Part, ...]) -> None:
    temporary = _temporary(path)
    # O_EXCL and an unguessable name: never write through a file or link that was placed there.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            for part in parts:
                # Names of files that are not UTF-8 have no other form in it.
                content = part.encode(errors="backslashreplace") if isinstance(part, str) else part
                _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C in mid-save must not leave the temporary behind either
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(path.parent)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def _write_all(descriptor: int, part: bytes | bytearray | memoryview) -> None:
    left = memoryview(part)
    while left:  # write() may stop short: near a full disk, or beyond 2 GiB
        left = left[os.write(descriptor, left) :]


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path for a library that writes files by name; in the end its file replaces that at `path`."""
    with tempfile.TemporaryDirectory(prefix=".", suffix=".tmp", dir=path.parent) as folder:
        temporary = Path(folder, path.name)
        yield temporary
        os.replace(temporary, path)


def replace_by_link(path: Path, target: str) -> None:
    """Make `path` a link to `target` in place of the link or file that is there."""
    temporary = _temporary(path)
    temporary.symlink_to(target)  # raises if the name is taken
    try:
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def make_directory(path: Path) -> None:
    """Create `path`, which may be no link, and its missing parents, and make the names durable."""
    if path.is_symlink():
        raise UnsafePath(path, "a link", "a folder")
    path.mkdir(parents=True, exist_ok=True)
    for parent in path.absolute().parents:
        # In a folder without write permission this user has created nothing.
        if not os.access(parent, os.R_OK | os.W_OK):
            break
        sync_directory(parent)


def prepare_directory(path: Path) -> None:
    """Make the directory of its only writer, or raise one sentence if it cannot save there."""
    make_directory(path)
    delete_temporaries(path)
    probe = _temporary(path / "probe")
    try:
        write_atomically(probe, b"probe")
        probe.unlink()
    except OSError as error:
        raise OSError(
            f"nothing can be saved in {str(path)!r}: {error.strerror}; make room, let this user write there, "
            "or choose another folder"
        ) from error


def is_at(path: Path, descriptor: int) -> bool:
    """Return whether the open file is still the one that has this path."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def require_contained(folder: Path) -> None:
    """Raise UnsafePath about anything in the folder that leads out of it, for a library that writes there."""
    inside = Path(os.path.realpath(folder))
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            kind = path.lstat().st_mode
            if stat.S_ISLNK(kind) and not Path(os.path.realpath(path)).is_relative_to(inside):
                raise UnsafePath(path, f"a link out of {str(folder)!r}", "a file or a folder")
            if not (stat.S_ISLNK(kind) or stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                raise UnsafePath(path, "a pipe or a device", "a file or a folder")


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
        if _TEMPORARY.fullmatch(path.name) and (path.is_symlink() or path.is_file()):
            path.unlink(missing_ok=True)


def to_json(value: object, indent: int | None = None) -> str:
    """Return strict JSON in UTF-8, in which a number that JSON cannot hold becomes null."""
    text = json.dumps(_finite(value), indent=indent, allow_nan=False, ensure_ascii=False)
    # The name of a file that is not UTF-8 becomes an escape, which JSON reads back as the same name.
    return text.encode(errors="backslashreplace").decode()


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
