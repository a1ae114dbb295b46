"""Between a tensor in memory and its blocks: laying out, filtering, compressing, checking."""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from navrl.storage.codec import HUFFMAN, LZ4, RAW, compress, decompress
from navrl.storage.filters import BYTES, NONE, Bytes, Words, apply_filter, undo_filter
from navrl.storage.row import DTYPES, MAX_BLOCK_BYTES, MAX_DIMENSIONS, Block, Row

BLOCK_BYTES = 1 << 20  # fits the second-level cache with what is made of it
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Coding(NamedTuple):
    """How a tensor is stored."""

    codec: str
    filter: str = NONE
    axis: int | None = None


AS_IS = Coding(RAW)
EXPONENTS = Coding(HUFFMAN, BYTES)  # what pays for the weights of networks
FAST = Coding(LZ4)


class Stored(NamedTuple):
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
        """Bytes of what one index of the first dimension has."""
        return self.raw_bytes // self.shape[0] if self.raw_bytes and self.shape else 0

    def block_bytes(self, axis: int | None) -> int:
        """Raw bytes of its blocks; those that are laid out by an axis hold whole rows."""
        if axis is None:
            return BLOCK_BYTES
        return max(BLOCK_BYTES // self.row_bytes, 1) * self.row_bytes

    def can_move(self, axis: int) -> bool:
        """Whether it can be stored with that axis last, and is not so anyhow."""
        return 0 < axis < len(self.shape) - 1 and 0 < self.row_bytes <= MAX_BLOCK_BYTES

    def pieces(self, axis: int | None) -> Iterator[slice]:
        """Where its blocks are: in the bytes of the whole, or in the first dimension if laid out by axis."""
        step, end = self.block_bytes(axis), self.raw_bytes
        if axis is not None:
            step, end = step // self.row_bytes, self.shape[0]
        return (slice(start, min(start + step, end)) for start in range(0, end, step))

    def laid_out(self, piece: slice, axis: int | None) -> Bytes:
        """The bytes of one piece, in the order in which they are stored."""
        if axis is None:
            return self._words.reshape(-1).view(np.uint8)[piece]
        words = np.moveaxis(self._words[piece], axis, -1)
        return np.ascontiguousarray(words).reshape(-1).view(np.uint8)


def encode(source: Source, piece: slice, coding: Coding) -> Stored:
    """One block, compressed unless it does not become smaller."""
    raw = source.laid_out(piece, coding.axis)
    content: bytes | memoryview = raw.data
    if coding.codec != RAW:
        filtered = apply_filter(coding.filter, raw, source.item_bytes)
        compressed = compress(coding.codec, filtered, source.item_bytes)
        content = compressed if len(compressed) < raw.size else content
    return Stored(content, hashlib.sha256(content).hexdigest())


def check(block: Block, stored: bytearray | memoryview) -> None:
    """ValueError unless these are the bytes that were written."""
    if hashlib.sha256(stored).hexdigest() != block.sha256:
        raise ValueError("its bytes are not those that were written (sha256)")


def decode(row: Row, block: Block, stored: bytearray) -> Bytes:
    """The bytes of one checked block as they are laid out."""
    if block.plain:
        return np.frombuffer(stored, np.uint8)
    raw = decompress(row.codec, stored, block.raw_bytes, row.item_bytes)
    return undo_filter(row.filter, raw, row.item_bytes)


def place(row: Row, block: Block, raw: Bytes, words: Words) -> None:
    """Put them where they belong in the tensor's words."""
    if row.axis is None:
        block_of(block, words)[:] = raw
        return
    first = block.raw_start // row.row_bytes
    rows = words[first : first + block.raw_bytes // row.row_bytes]
    moved = np.moveaxis(rows, row.axis, -1)
    moved[...] = raw.view(words.dtype).reshape(moved.shape)


def block_of(block: Block, words: Words) -> Bytes:
    """The bytes of one block in a tensor that is not laid out by an axis."""
    return words.reshape(-1).view(np.uint8)[block.raw_start : block.raw_start + block.raw_bytes]


def check_values(row: Row, raw: Bytes) -> None:
    """ValueError about values that no tensor of that dtype has."""
    if row.dtype == "bool" and int(raw.max()) > 1:
        raise ValueError("a bool is neither 0 nor 1")


def words_of(tensor: Tensor) -> Words:
    """A dense tensor's memory as unsigned words, whatever its dtype."""
    array = tensor.view(_WORDS[tensor.element_size()]).numpy()
    return array.view(f"<u{tensor.element_size()}")


def _check_storable(name: str, dtype: str, tensor: Tensor) -> None:
    storable = tensor.layout is torch.strided and not tensor.is_meta
    if not storable or dtype not in DTYPES or tensor.dim() > MAX_DIMENSIONS:
        raise TypeError(
            f"tensor {name!r} cannot be stored: it is {tensor.layout} {tensor.dtype} with "
            f"{tensor.dim()} dimensions on {tensor.device.type}; expected a dense one of at most "
            f"{MAX_DIMENSIONS} dimensions and dtype {', '.join(DTYPES)}"
        )
