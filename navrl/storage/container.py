"""One checked file of named tensors and JSON metadata; docs/container_format.md describes every byte.

Nothing is allocated before the header is checked, and nothing is returned unchecked.
"""

import mmap
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.storage.blocks import (
    UNCOMPRESSED,
    Coding,
    EncodedBlock,
    Source,
    bytes_of_block,
    check_digest,
    check_values,
    choose_coding,
    decode,
    encode,
    in_threads,
    place,
    words_of,
)
from navrl.storage.codec import RAW, Words
from navrl.storage.files import write_atomically
from navrl.storage.header import (
    DIGEST_BYTES,
    PREFIX_BYTES,
    Block,
    CorruptFile,
    Header,
    Row,
    TooLarge,
    aligned_gap,
    header_of,
    opened,
    pack,
)
from navrl.storage.memory import usable_bytes


def write(
    path: Path,
    tensors: Mapping[str, Tensor],
    meta: dict[str, Any],
    *,
    compress: bool = False,
    time_axis: int | None = None,
    threads: int | None = None,
) -> str:
    """Write one container atomically and durably; return its sha256 (hex), the file's identity.

    Along `time_axis`, if there is one, values change little from one to the next. The tensors' memory is
    not copied first, so they must not change before this returns.
    """
    sources = [Source(name, tensor) for name, tensor in tensors.items()]
    codings = [choose_coding(source, time_axis) if compress else UNCOMPRESSED for source in sources]
    jobs = [
        (source, piece, coding)
        for source, coding in zip(sources, codings, strict=True)
        for piece in source.pieces(coding.axis)
    ]
    total = sum(source.raw_bytes for source in sources)
    encoded = in_threads(lambda job: encode(*job), jobs, total, threads)
    rows: list[Row] = []
    parts: list[bytes | memoryview] = []
    end = 0
    for source, coding in zip(sources, codings, strict=True):
        blocks = [next(encoded) for _ in source.pieces(coding.axis)]
        parts += [bytes(aligned_gap(end)), *(block.content for block in blocks)]
        rows.append(_row(source, coding, blocks, end + aligned_gap(end)))
        end = rows[-1].end
    start, digest = pack(path, rows, meta)
    write_atomically(path, start, *parts)
    return digest


def _row(source: Source, coding: Coding, blocks: list[EncodedBlock], start: int) -> Row:
    """Return the line of the table; a tensor of which no block became smaller is simply raw."""
    stored = [(len(block.content), block.sha256) for block in blocks]
    if coding.axis is None and sum(length for length, _ in stored) == source.raw_bytes:
        coding = UNCOMPRESSED
    block_bytes = source.block_bytes(coding.axis)
    return Row(source.name, source.dtype, source.shape, *coding, block_bytes, stored, start)


class _Task(NamedTuple):
    """A block to be read."""

    row: Row
    block: Block
    words: Words  # of the whole tensor that it is part of
    mapped: bool  # then its bytes are in place, and only to be checked


def read(
    path: Path,
    max_bytes: int | None = None,
    *,
    names: Collection[str] | None = None,
    mapped: bool = False,
    threads: int | None = None,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors (writable, on the CPU) and the metadata of an intact file.

    With `names` only those tensors are read, and checked. With `mapped` tensors that are not compressed stay
    in the file's memory: shared by all who read it so, private as soon as they are written to. Neither the
    file nor the tensors that are read may be larger than `max_bytes`, by default half of the free memory.
    """
    max_bytes = usable_bytes() if max_bytes is None else max_bytes
    with opened(path) as descriptor:
        header = header_of(path, descriptor, max_bytes)
        rows = header.rows if names is None else _named(path, header.rows, names)
        total = sum(row.raw_bytes for row in rows)
        if total > max_bytes:
            raise TooLarge(path, f"{total:,} bytes of tensors", max_bytes)
        _check_gaps(path, descriptor, header)
        tensors: dict[str, Tensor] = {}
        tasks: list[_Task] = []
        memory = _map(descriptor, rows) if mapped else None
        for row in rows:
            in_place = memory is not None and row.codec == RAW and row.raw_bytes > 0
            tensors[row.name] = _tensor(row, header, memory if in_place else None)
            words = words_of(tensors[row.name])
            tasks += [_Task(row, block, words, in_place) for block in row.blocks()]
        start = header.payload_start
        for _ in in_threads(
            lambda task: _read(path, descriptor, start, task), tasks, total, threads
        ):
            pass
    return tensors, header.meta


def read_digest(path: Path) -> str:
    """Return the sha256 (hex) that `write` returned for this file; check nothing else."""
    with path.open("rb") as file:
        return file.read(PREFIX_BYTES)[-DIGEST_BYTES:].hex()


def _named(path: Path, rows: list[Row], names: Collection[str]) -> list[Row]:
    absent = set(names) - {row.name for row in rows}
    if absent:
        held = ", ".join(repr(row.name) for row in rows[:20])
        raise ValueError(
            f"{path} has no tensor {', '.join(map(repr, sorted(absent)))}; it has {held}"
        )
    return [row for row in rows if row.name in names]


def _check_gaps(path: Path, descriptor: int, header: Header) -> None:
    end = 0
    for row in header.rows:
        gap = row.start - end
        if gap and os.pread(descriptor, gap, header.payload_start + end) != bytes(gap):
            raise CorruptFile(path, row.part, "the bytes before it are not zero")
        end = row.end


def _map(descriptor: int, rows: list[Row]) -> mmap.mmap | None:
    """Return the file as memory in which writing changes nothing but this process."""
    if not any(row.codec == RAW and row.raw_bytes for row in rows):
        return None
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)


def _tensor(row: Row, header: Header, memory: mmap.mmap | None) -> Tensor:
    """Return a tensor for the values of a row; if the file is mapped, it holds them already."""
    dtype = getattr(torch, row.dtype)
    if memory is None:
        # Memory of torch's own alignment, on which the last bit of a matmul may depend.
        return torch.empty(row.shape, dtype=dtype)
    start, count = header.payload_start + row.start, row.raw_bytes // row.item_bytes
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=start).view(row.shape)


def _read(path: Path, descriptor: int, payload_start: int, task: _Task) -> None:
    """Read, check and place one block."""
    row, block = task.row, task.block
    part = f"{row.part}, block {block.number}"
    start = payload_start + block.start
    try:
        if row.codec == RAW:
            raw = bytes_of_block(block, task.words)
            if not task.mapped:
                _read_into(descriptor, raw.data, start)
            check_digest(block, raw.data)
        else:
            stored = bytearray(block.stored_bytes)
            _read_into(descriptor, memoryview(stored), start)
            check_digest(block, stored)
            raw = decode(row, block, stored)
            place(row, block, raw, task.words)
        check_values(row, raw)
    except ValueError as error:
        raise CorruptFile(path, part, str(error)) from error


def _read_into(descriptor: int, left: memoryview, start: int) -> None:
    while left:  # a read may stop short, beyond 2 GiB for one
        count = os.preadv(descriptor, [left], start)
        if count == 0:
            raise ValueError("the file ends inside it")
        left, start = left[count:], start + count
