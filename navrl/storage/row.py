"""One line of a container's table: how one tensor is stored."""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from navrl.storage.codec import CODECS, HUFFMAN, MAX_RATIO, RAW
from navrl.storage.filters import BYTES, FILTERS, NONE

MAX_DIMENSIONS = 32
# What a reader may have to hold besides the tensors, a few times per thread.
MAX_BLOCK_BYTES = 16 << 20
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}
_LARGEST = 2**62  # bytes a shape may span, so that no stride overflows
_DIGEST = re.compile("[0-9a-f]{64}")


class Block(NamedTuple):
    """A piece of a tensor that is compressed and checked on its own."""

    number: int
    raw_start: int  # in the tensor's bytes as they are laid out
    raw_bytes: int
    start: int  # in the payload
    stored_bytes: int
    sha256: str

    @property
    def plain(self) -> bool:
        """Whether it is stored as it was: it would not have become smaller."""
        return self.stored_bytes == self.raw_bytes


class Row(NamedTuple):
    """A tensor; `start` is not stored but follows from the rows before it."""

    name: str
    dtype: str
    shape: list[int]
    codec: str
    filter: str
    axis: int | None  # the dimension that is stored last, so that its values are neighbours
    block_bytes: int  # raw bytes of every block but the last
    stored: list[tuple[int, str]]  # bytes and sha256 of every block
    start: int

    @property
    def part(self) -> str:
        """What errors call it."""
        return f"tensor {self.name!r:.200}"

    @property
    def item_bytes(self) -> int:
        """Bytes of one value."""
        return DTYPES[self.dtype].itemsize

    @property
    def raw_bytes(self) -> int:
        """Bytes of the tensor in memory."""
        return math.prod(self.shape) * self.item_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of what one index of the first dimension has."""
        return math.prod(self.shape[1:]) * self.item_bytes

    @property
    def stored_bytes(self) -> int:
        """Bytes of its blocks in the file."""
        return sum(length for length, _ in self.stored)

    @property
    def end(self) -> int:
        """Where its last block ends in the payload."""
        return self.start + self.stored_bytes

    def blocks(self) -> Iterator[Block]:
        """Its blocks in the order of the file."""
        start, raw_bytes = self.start, self.raw_bytes
        for number, (length, sha256) in enumerate(self.stored):
            raw_start = number * self.block_bytes
            size = min(self.block_bytes, raw_bytes - raw_start)
            yield Block(number, raw_start, size, start, length, sha256)
            start += length


def fault_of(row: Row) -> str | None:
    """What is wrong with a row that was read, if anything; nothing in it can be trusted before."""
    if not isinstance(row.name, str):
        return "the name is not a string"
    if not isinstance(row.dtype, str) or row.dtype not in DTYPES:
        return f"unknown dtype {row.dtype!r:.40}, known are {', '.join(DTYPES)}"
    if not _is_shape(row):
        return "the shape is not a short list of sizes"
    return _coding_fault(row) or _axis_fault(row) or _blocks_fault(row)


def _is_shape(row: Row) -> bool:
    """Whether torch can represent it."""
    if not isinstance(row.shape, list) or len(row.shape) > MAX_DIMENSIONS:
        return False
    if not all(_is_count(size) for size in row.shape):
        return False
    # Strides treat a size of 0 as 1, so an empty tensor can overflow too.
    return math.prod(max(size, 1) for size in row.shape) * row.item_bytes <= _LARGEST


def _coding_fault(row: Row) -> str | None:
    if row.codec not in CODECS:
        return f"unknown codec {row.codec!r:.40}, known are {', '.join(CODECS)}"
    if row.filter not in FILTERS:
        return f"unknown filter {row.filter!r:.40}, known are {', '.join(FILTERS)}"
    if row.codec == RAW and (row.filter != NONE or row.axis is not None):
        return "codec raw goes with filter none and axis null"
    if row.codec == HUFFMAN and (row.filter != BYTES or row.item_bytes == 1):
        return "codec huffman goes with filter bytes and values of several bytes"
    return None


def _axis_fault(row: Row) -> str | None:
    if not _is_count(row.block_bytes) or not 0 < row.block_bytes <= MAX_BLOCK_BYTES:
        return f"blocks of {row.block_bytes!r:.40} bytes, expected 1 to {MAX_BLOCK_BYTES:,}"
    if row.block_bytes % row.item_bytes:
        return f"blocks of {row.block_bytes} bytes would cut values of {row.item_bytes} bytes"
    if row.axis is None:
        return None
    if not _is_count(row.axis) or not 0 < row.axis < len(row.shape) - 1 or not row.raw_bytes:
        return f"axis {row.axis!r:.40} is not one between the first and the last of {row.shape}"
    if row.block_bytes % row.row_bytes:
        return f"blocks of {row.block_bytes} bytes would cut rows of {row.row_bytes} bytes"
    return None


def _blocks_fault(row: Row) -> str | None:
    if not isinstance(row.stored, list) or len(row.stored) != -(-row.raw_bytes // row.block_bytes):
        return "the number of its blocks does not follow from shape and dtype"
    for pair in row.stored:
        if not isinstance(pair, list) or len(pair) != 2 or not _is_count(pair[0]):
            return "a block is not a pair of length and sha256"
        if not isinstance(pair[1], str) or not _DIGEST.fullmatch(pair[1]):
            return "a sha256 is not 64 hexadecimal digits"
    for block in row.blocks():
        least = block.raw_bytes if row.codec == RAW else -(-block.raw_bytes // MAX_RATIO)
        if not least <= block.stored_bytes <= block.raw_bytes:
            return (
                f"block {block.number} of {block.raw_bytes:,} bytes is stored in "
                f"{block.stored_bytes:,}, expected {least:,} to {block.raw_bytes:,}"
            )
    return None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST
