"""One checked file of named tensors and JSON metadata; docs/container_format.md has every byte."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from navrl.storage.atomic import replace_file
from navrl.storage.blocks import AS_IS, Coding, Source, Stored, encode
from navrl.storage.choosing import Compress, choose
from navrl.storage.faults import CorruptFile, ForeignFile
from navrl.storage.header import (
    MAGIC,
    MAX_HEADER_BYTES,
    MAX_TENSORS,
    VERSION,
    Header,
    aligned_gap,
    pack,
)
from navrl.storage.parallel import each
from navrl.storage.reading import MAX_BYTES, read, read_digest, read_header
from navrl.storage.row import DTYPES, MAX_DIMENSIONS, Row

__all__ = [
    "DTYPES",
    "MAGIC",
    "MAX_BYTES",
    "MAX_DIMENSIONS",
    "MAX_HEADER_BYTES",
    "MAX_TENSORS",
    "VERSION",
    "Compress",
    "CorruptFile",
    "ForeignFile",
    "Header",
    "Row",
    "read",
    "read_digest",
    "read_header",
    "write",
]


def write(
    path: Path,
    tensors: Mapping[str, Tensor],
    meta: dict[str, Any],
    *,
    compress: Compress = Compress.NOTHING,
    time_axis: int | None = None,
    threads: int | None = None,
) -> str:
    """Write one container atomically and durably; returns its sha256 (hex), the file's identity.

    Along `time_axis`, if there is one, values change little from one to the next. The tensors' memory is
    not copied first, so nobody may change them before this returns.
    """
    sources = [Source(name, tensor) for name, tensor in tensors.items()]
    codings = [choose(source, compress, time_axis) for source in sources]
    jobs = [
        (source, piece, coding)
        for source, coding in zip(sources, codings, strict=True)
        for piece in source.pieces(coding.axis)
    ]
    total = sum(source.raw_bytes for source in sources)
    done = each(lambda job: encode(*job), jobs, total, threads)
    rows: list[Row] = []
    parts: list[bytes | memoryview] = []
    end = 0
    for source, coding in zip(sources, codings, strict=True):
        blocks = [next(done) for _ in source.pieces(coding.axis)]
        parts += [bytes(aligned_gap(end)), *(block.content for block in blocks)]
        rows.append(_row(source, coding, blocks, end + aligned_gap(end)))
        end = rows[-1].end
    start, digest = pack(path, rows, meta)
    replace_file(path, [start, *parts])
    return digest


def _row(source: Source, coding: Coding, blocks: list[Stored], start: int) -> Row:
    """The line of the table; a tensor of which no block became smaller is simply raw."""
    stored = [(len(block.content), block.sha256) for block in blocks]
    if coding.axis is None and sum(length for length, _ in stored) == source.raw_bytes:
        coding = AS_IS
    block_bytes = source.block_bytes(coding.axis)
    return Row(source.name, source.dtype, source.shape, *coding, block_bytes, stored, start)
