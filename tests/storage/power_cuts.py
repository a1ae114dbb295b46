"""A model of a power cut: every state that a disk may be in, given what was written and synced.

Names change in the order of a journal, of which a cut leaves any beginning; a sync of the directory makes all
of it permanent. Of what was written to a file and not synced there may be all, nothing, half, or zeros.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

_WATCHED = ("open", "write", "fsync", "replace", "unlink")
_VARIANTS = ("all", "nothing", "half", "zeros")


class Trace:
    """The operations on one directory, in order."""

    def __init__(self, directory):
        self.directory, self.operations = Path(directory), []
        self._inodes = {}  # open descriptor -> number of the file
        self._made = 0
        self._real = {name: getattr(os, name) for name in _WATCHED}

    def acknowledge(self, step):
        """Note that the writer has promised this step."""
        self.operations.append(("ack", step))

    @contextlib.contextmanager
    def recording(self):
        """Note the calls of `os`."""
        with mock.patch.multiple(os, **{name: getattr(self, f"_{name}") for name in _WATCHED}):
            yield

    def _open(self, path, flags, *rest, **more):
        descriptor = self._real["open"](path, flags, *rest, **more)
        self._inodes.pop(descriptor, None)
        if flags & os.O_CREAT and Path(path).parent == self.directory:
            self._made += 1
            self._inodes[descriptor] = self._made
            self.operations.append(("create", Path(path).name, self._made))
        return descriptor

    def _write(self, descriptor, data):
        count = self._real["write"](descriptor, data)
        if descriptor in self._inodes:
            self.operations.append(("write", self._inodes[descriptor], bytes(data[:count])))
        return count

    def _fsync(self, descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self.operations.append(("sync names",))
        elif descriptor in self._inodes:
            self.operations.append(("sync", self._inodes[descriptor]))
        return self._real["fsync"](descriptor)

    def _replace(self, source, target):
        if Path(target).parent == self.directory:
            self.operations.append(("rename", Path(source).name, Path(target).name))
        return self._real["replace"](source, target)

    def _unlink(self, path, **more):
        self._real["unlink"](path, **more)
        if Path(path).parent == self.directory:
            self.operations.append(("unlink", Path(path).name))

    def crashes(self) -> Iterator[tuple[int, dict[str, bytes]]]:
        """Yield the last promised step and the files for a cut after every operation."""
        disk, promised = _Disk(), 0
        for operation in self.operations:
            if operation[0] == "ack":
                promised = operation[1]
            else:
                disk.apply(operation)
            if operation[0] != "write":  # that cut is the one before the next operation
                for files in disk.after_a_cut():
                    yield promised, files


class _Disk:
    """The permanent state, and the changes that are not permanent yet."""

    def __init__(self):
        self.names, self.journal = {}, []  # permanent names, and changes that are not
        self.content, self.safe = {}, {}  # bytes of every file, and how many are permanent

    def apply(self, operation):
        """Apply the next operation."""
        match operation:
            case ("write", inode, piece):
                self.content[inode] = self.content.get(inode, b"") + piece
            case ("sync", inode):
                self.safe[inode] = len(self.content.get(inode, b""))
            case ("sync names",):
                self.names = self._names(len(self.journal))
                self.journal.clear()
            case _:
                self.journal.append(operation)

    def after_a_cut(self):
        """Yield every state that may be found, as files by name."""
        for length in range(len(self.journal) + 1):
            for variant in _VARIANTS:
                names = self._names(length)
                yield {name: self._left(inode, variant) for name, inode in names.items()}

    def _names(self, length):
        names = dict(self.names)
        for change in self.journal[:length]:
            _change(names, change)
        return names

    def _left(self, inode, variant):
        return _left(self.content.get(inode, b""), self.safe.get(inode, 0), variant)


def _change(names, operation):
    match operation:
        case ("create", name, inode):
            names[name] = inode
        case ("rename", source, target):
            names[target] = names.pop(source)
        case ("unlink", name):
            names.pop(name, None)


def _left(content, safe, variant):
    lost = len(content) - safe
    rest = {
        "all": content[safe:],
        "nothing": b"",
        "half": content[safe : safe + lost // 2],
        "zeros": bytes(lost),
    }[variant]
    return content[:safe] + rest
