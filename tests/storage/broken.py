"""Four writers that break one promise each: what the checks are worth is that they catch these."""

import json
import os
import struct
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import torch

import fault_kills
from navrl.storage import tree
from navrl.storage.async_saver import AsyncSaver, Snapshot
from navrl.storage.checkpoint import checkpoint_name, write_state

_PIECE = 4096


class _Copying:
    """Puts a whole checkpoint, made elsewhere, into its directory; how is what is broken."""

    def __init__(self, directory):
        self.directory, self.saved_frames = Path(directory), None
        self.directory.mkdir(parents=True, exist_ok=True)

    def save(self, state, *, frames, score):
        with tempfile.TemporaryDirectory() as scratch, mock.patch.object(os, "fsync"):
            whole = Path(scratch, "whole")
            write_state(whole, state, frames=frames, score=score)
            content = whole.read_bytes()
        self.put(self.directory / checkpoint_name(frames), content)
        self.saved_frames = frames

    def flush(self):
        """Nothing waits."""


class NoFsync(_Copying):
    """The file is renamed before its content is on the disk."""

    def put(self, path, content):
        temporary = path.with_name(f".{path.name}.0123456789abcdef.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, content)
        os.close(descriptor)
        os.replace(temporary, path)


class DirectWrite(_Copying):
    """The file has its final name from the first byte on."""

    def put(self, path, content):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        for start in range(0, len(content), _PIECE):
            os.write(descriptor, content[start : start + _PIECE])
            time.sleep(0.0002)  # a slower disk, or there is hardly a moment to be killed in
        os.fsync(descriptor)
        os.close(descriptor)


class _Alias(Snapshot):
    def fill(self, tensors):
        return dict(tensors)


class ShallowCopy(AsyncSaver):
    """What waits for the disk is what training goes on changing."""

    def __init__(self, **options):
        super().__init__(**options)
        self._free = [_Alias() for _ in self._free]


def write_unchecked(path, state):
    """Header and bytes without a checksum."""
    tensors, skeleton = tree.flatten(state)
    rows = [[name, list(t.shape), str(t.dtype)[6:]] for name, t in tensors.items()]
    header = json.dumps([rows, skeleton]).encode()
    content = [tensor.contiguous().numpy().tobytes() for tensor in tensors.values()]
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"".join(content))


def read_unchecked(path):
    """The inverse."""
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    rows, skeleton = json.loads(content[8 : 8 + size])
    start, tensors = 8 + size, {}
    for name, shape, dtype in rows:
        empty = torch.empty(shape, dtype=getattr(torch, dtype))
        if empty.numel():
            found = torch.frombuffer(
                bytearray(content), dtype=empty.dtype, count=empty.numel(), offset=start
            )
            tensors[name] = found.view(shape)
        else:
            tensors[name] = empty
        start += empty.numel() * empty.element_size()
    return tree.unflatten(tensors, skeleton)


def kill_direct_writer():
    """The campaign's kills, with DirectWrite; prints what they have shown."""
    found = fault_kills.kill_savers(10, Path("killed"), DirectWrite, seed=0, longest_s=0.2)
    sys.stdout.write(json.dumps(found._asdict()))
