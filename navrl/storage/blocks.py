"""The blocks of a tensor: choosing a coding, laying out, compressing, checking, decoding."""

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from navrl.storage.codec import (
    BITS,
    BYTES,
    DELTA_BYTES,
    LZ4,
    NONE,
    RAW,
    Bytes,
    Words,
    apply_filter,
    compress,
    decompress,
    undo_filter,
)
from navrl.storage.header import ITEM_BYTES, MAX_BLOCK_BYTES, MAX_DIMENSIONS, Block, Row

BLOCK_BYTES = 1 << 20  # fits the second-level cache with its filtered and compressed copies
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_SAMPLE_BYTES = 64 << 10
_SAMPLE_SHARE = 16  # a small tensor is not tried on much more than itself
_LEAST_SAMPLE_BYTES = 4 << 10
_SAMPLE_PIECES = 4  # spread over the tensor
_LEAST_GAIN = 0.03  # of the raw size, that a slower coding must save in addition
_MOST_THREADS = 4
_WORTH_THREADS_BYTES = 4 << 20  # starting threads takes as long as coding some 100 KB

Job = TypeVar("Job")
Result = TypeVar("Result")


class Coding(NamedTuple):
    """A codec, and the filter and layout before it."""

    codec: str
    filter: str = NONE
    axis: int | None = None


UNCOMPRESSED = Coding(RAW)


class EncodedBlock(NamedTuple):
    """One block as it goes into the file."""

    content: bytes | memoryview
    sha256: str


class Source:
    """A tensor to be written; shares its memory where it can, so it must not change meanwhile."""

    def __init__(self, name: str, tensor: Tensor) -> None:
        self.name = name
        self.dtype = str(tensor.dtype).removeprefix("torch.")
        self.shape = list(tensor.shape)
        _check_storable(name, self.dtype, tensor)
        tensor = tensor.detach().cpu().resolve_neg()
        if tensor.dtype == torch.bool:  # a view of other numbers may hold more than 0 and 1
            tensor = tensor.view(torch.uint8) != 0
        self.item_bytes = tensor.element_size()
        self.raw_bytes = tensor.numel() * self.item_bytes
        self._words = words_of(tensor.contiguous())

    @property
    def row_bytes(self) -> int:
        """Bytes at one index of the first dimension."""
        return self.raw_bytes // self.shape[0] if self.raw_bytes and self.shape else 0

    def block_bytes(self, axis: int | None) -> int:
        """Return the raw bytes of a block; blocks that are laid out by an axis hold whole rows."""
        if axis is None:
            return BLOCK_BYTES
        return max(BLOCK_BYTES // self.row_bytes, 1) * self.row_bytes

    def can_move(self, axis: int) -> bool:
        """Return whether storing that axis last is possible and changes anything."""
        return 0 < axis < len(self.shape) - 1 and 0 < self.row_bytes <= MAX_BLOCK_BYTES

    def pieces(self, axis: int | None) -> Iterator[slice]:
        """Yield the place of every block: in all bytes, or in the first dimension if laid out by axis."""
        step, end = self.block_bytes(axis), self.raw_bytes
        if axis is not None:
            step, end = step // self.row_bytes, self.shape[0]
        return (slice(start, min(start + step, end)) for start in range(0, end, step))

    def laid_out(self, piece: slice, axis: int | None) -> Bytes:
        """Return the bytes of one piece, in the order in which they are stored."""
        if axis is None:
            return self._words.reshape(-1).view(np.uint8)[piece]
        words = np.moveaxis(self._words[piece], axis, -1)
        return np.ascontiguousarray(words).reshape(-1).view(np.uint8)


def choose_coding(source: Source, axis: int | None) -> Coding:
    """Choose a coding by trying all that may suit on a sample of the tensor.

    Along `axis`, if there is one, values change little from one to the next.
    """
    if source.raw_bytes == 0:
        return UNCOMPRESSED
    best, best_share = UNCOMPRESSED, 1.0
    for coding in _candidates(source, axis):
        share = _compressed_share(source, coding)
        if share < best_share - _LEAST_GAIN:
            best, best_share = coding, share
    return best


def _candidates(source: Source, axis: int | None) -> Iterator[Coding]:
    """Yield the codings to try, the faster ones first."""
    yield Coding(LZ4)
    if axis is not None and source.can_move(axis):
        for name in (NONE, BYTES, DELTA_BYTES):
            yield Coding(LZ4, name, axis)
    yield Coding(LZ4, BITS)


def _compressed_share(source: Source, coding: Coding) -> float:
    """Return stored over raw bytes of a sample."""
    raw = _sample(source, coding.axis)
    return len(compress(apply_filter(coding.filter, raw, source.item_bytes))) / raw.size


def _sample(source: Source, axis: int | None) -> Bytes:
    """Return a few pieces from all over the tensor as they would be stored, one after the other."""
    wanted = min(_SAMPLE_BYTES, max(source.raw_bytes // _SAMPLE_SHARE, _LEAST_SAMPLE_BYTES))
    unit = source.item_bytes if axis is None else source.row_bytes
    units = source.raw_bytes // unit
    length = min(max(wanted // unit // _SAMPLE_PIECES, 1), units)
    starts = sorted({int(start) for start in np.linspace(0, units - length, _SAMPLE_PIECES)})
    scale = unit if axis is None else 1  # a piece counts bytes, or rows
    pieces = [slice(start * scale, (start + length) * scale) for start in starts]
    return np.concatenate([source.laid_out(piece, axis) for piece in pieces])


def encode(source: Source, piece: slice, coding: Coding) -> EncodedBlock:
    """Return one block, compressed unless it does not become smaller."""
    raw = source.laid_out(piece, coding.axis)
    content: bytes | memoryview = raw.data
    if coding.codec != RAW:
        compressed = compress(apply_filter(coding.filter, raw, source.item_bytes))
        content = compressed if len(compressed) < raw.size else content
    return EncodedBlock(content, hashlib.sha256(content).hexdigest())


def check_digest(block: Block, stored: bytearray | memoryview) -> None:
    """Raise ValueError unless these are the bytes that were written."""
    if hashlib.sha256(stored).hexdigest() != block.sha256:
        raise ValueError("its bytes are not those that were written (sha256)")


def decode(row: Row, block: Block, stored: bytearray) -> Bytes:
    """Return the bytes of one checked block as they are laid out."""
    if block.plain:
        return np.frombuffer(stored, np.uint8)
    return undo_filter(row.filter, decompress(stored, block.raw_bytes), row.item_bytes)


def place(row: Row, block: Block, raw: Bytes, words: Words) -> None:
    """Copy the bytes of one block to their places in the tensor's words."""
    if row.axis is None:
        bytes_of_block(block, words)[:] = raw
        return
    first = block.raw_start // row.row_bytes
    rows = words[first : first + block.raw_bytes // row.row_bytes]
    moved = np.moveaxis(rows, row.axis, -1)
    moved[...] = raw.view(words.dtype).reshape(moved.shape)


def bytes_of_block(block: Block, words: Words) -> Bytes:
    """Return the bytes of one block in a tensor that is not laid out by an axis."""
    return words.reshape(-1).view(np.uint8)[block.raw_start : block.raw_start + block.raw_bytes]


def check_values(row: Row, raw: Bytes) -> None:
    """Raise ValueError about values that no tensor of that dtype has."""
    if row.dtype == "bool" and int(raw.max()) > 1:
        raise ValueError("a bool is neither 0 nor 1")


def words_of(tensor: Tensor) -> Words:
    """Return a dense tensor's memory as unsigned words, whatever its dtype."""
    array = tensor.view(_WORDS[tensor.element_size()]).numpy()
    return array.view(f"<u{tensor.element_size()}")


def differing_rows(left: Tensor, right: Tensor) -> Tensor:
    """Return the rows (N, T) in which tensors (N, T, ...) of one shape and dtype differ in any bit.

    As bits a NaN equals itself, and the two zeros differ.
    """
    shape = (*left.shape[:2], math.prod(left.shape[2:]))
    pair = [words_of(tensor.contiguous()).reshape(shape) for tensor in (left, right)]
    if shape[-1] * left.element_size() % 8 == 0:
        pair = [words.view(np.int64) for words in pair]  # several times as fast
    return torch.from_numpy((pair[0] != pair[1]).any(-1))


def in_threads(
    function: Callable[[Job], Result], jobs: Sequence[Job], total_bytes: int, threads: int | None
) -> Iterator[Result]:
    """Yield the results in the order of the jobs; by default with one thread per core, up to 4."""
    if threads is not None and threads < 1:
        raise ValueError(f"threads = {threads}; expected 1 or more, or none given")
    count = threads or min(_MOST_THREADS, os.cpu_count() or 1)
    if count == 1 or total_bytes < _WORTH_THREADS_BYTES:
        yield from map(function, jobs)
        return
    # numpy, lz4 and hashlib release the interpreter lock, so threads run in parallel.
    with ThreadPoolExecutor(count, "navrl-container") as pool:
        try:
            results = pool.map(function, jobs)
        except RuntimeError:
            # The program is ending, but a last save in a thread of its own may not be lost.
            results = map(function, jobs)
        yield from results


def _check_storable(name: str, dtype: str, tensor: Tensor) -> None:
    storable = tensor.layout is torch.strided and not tensor.is_meta
    if not storable or dtype not in ITEM_BYTES or tensor.dim() > MAX_DIMENSIONS:
        raise TypeError(
            f"tensor {name!r} cannot be stored: it is {tensor.layout} {tensor.dtype} with "
            f"{tensor.dim()} dimensions on {tensor.device.type}; expected a dense one of at most "
            f"{MAX_DIMENSIONS} dimensions and dtype {', '.join(ITEM_BYTES)}"
        )
