"""The codec of one block: lz4, and filters that rearrange its bytes so that lz4 finds more.

The only module that imports lz4. For the filters a block is an array of little-endian words of 1, 2, 4
or 8 bytes. They use numpy only: its copies and bit operations release the interpreter lock, and wake none of
torch's own threads.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import lz4.block
import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[Any]

RAW, LZ4 = "raw", "lz4"
CODECS = (RAW, LZ4)
MAX_RATIO = 255  # of lz4; a block that claims to expand more is refused
NONE, BYTES, BITS, DELTA_BYTES = "none", "bytes", "bits", "delta+bytes"
FILTERS = (NONE, BYTES, BITS, DELTA_BYTES)

# Swapping these groups of bits across the diagonal of an 8 x 8 matrix transposes it.
_SWAPS = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))


def compress(block: Bytes) -> bytes:
    """Return the block as lz4; not necessarily smaller."""
    return lz4.block.compress(block, store_size=False)


def decompress(stored: bytes | bytearray, raw_bytes: int) -> Bytes:
    """Return the `raw_bytes` bytes that were compressed; raise ValueError if the size differs."""
    try:  # lz4 never writes beyond this size
        raw = lz4.block.decompress(stored, uncompressed_size=raw_bytes)
    except lz4.block.LZ4BlockError as error:
        raise ValueError("lz4 cannot decode it") from error
    if len(raw) != raw_bytes:
        raise ValueError(f"it decodes to {len(raw):,} bytes, expected {raw_bytes:,}")
    return np.frombuffer(raw, np.uint8)


def apply_filter(name: str, raw: Bytes, item_bytes: int) -> Bytes:
    """Return the rearranged bytes, as many as before."""
    return _FILTERS[name].apply(raw, item_bytes)


def undo_filter(name: str, filtered: Bytes, item_bytes: int) -> Bytes:
    """Return the bytes as they were before `apply_filter`."""
    return _FILTERS[name].undo(filtered, item_bytes)


def _keep(raw: Bytes, item_bytes: int) -> Bytes:
    return raw


def _split_bytes(raw: Bytes, item_bytes: int) -> Bytes:
    """Put all first bytes of the words first, then all second ones, and so on."""
    return np.ascontiguousarray(raw.reshape(-1, item_bytes).T).reshape(-1)


def _join_bytes(planes: Bytes, item_bytes: int) -> Bytes:
    raw = np.empty_like(planes)
    words = raw.reshape(-1, item_bytes)
    for place, plane in enumerate(planes.reshape(item_bytes, -1)):
        words[:, place] = plane  # a strided write is twice as fast as transposing here
    return raw


def _split_bits(raw: Bytes, item_bytes: int) -> Bytes:
    """Do the same bit by bit; words that do not fill a last group of eight stay at the end."""
    whole = raw.size // (8 * item_bytes) * (8 * item_bytes)
    planes = _transpose_bits(_split_bytes(raw[:whole], item_bytes))
    bits = np.ascontiguousarray(planes.reshape(item_bytes, -1, 8).transpose(0, 2, 1))
    return np.concatenate([bits.reshape(-1), raw[whole:]])


def _join_bits(filtered: Bytes, item_bytes: int) -> Bytes:
    whole = filtered.size // (8 * item_bytes) * (8 * item_bytes)
    bits = filtered[:whole].reshape(item_bytes, 8, -1)
    planes = np.ascontiguousarray(bits.transpose(0, 2, 1)).reshape(-1)
    return np.concatenate([_join_bytes(_transpose_bits(planes), item_bytes), filtered[whole:]])


def _transpose_bits(data: Bytes) -> Bytes:
    """Make bit j of byte i bit i of byte j, in every eight bytes; its own inverse."""
    groups = data.view("<u8").copy()  # single bytes are not split, so this is the caller's tensor
    swapped = np.empty_like(groups)
    for shift, mask in _SWAPS:
        np.right_shift(groups, shift, out=swapped)
        np.bitwise_xor(swapped, groups, out=swapped)
        np.bitwise_and(swapped, np.uint64(mask), out=swapped)
        groups ^= swapped
        np.left_shift(swapped, shift, out=swapped)
        groups ^= swapped
    return groups.view(np.uint8)


def _split_differences(raw: Bytes, item_bytes: int) -> Bytes:
    """Subtract from each word the one before it, modulo its range, and split the bytes."""
    words = raw.view(f"<u{item_bytes}")
    differences = words.copy()
    np.subtract(words[1:], words[:-1], out=differences[1:])
    return _split_bytes(differences.view(np.uint8), item_bytes)


def _join_differences(filtered: Bytes, item_bytes: int) -> Bytes:
    differences = _join_bytes(filtered, item_bytes).view(f"<u{item_bytes}")
    return np.add.accumulate(differences, dtype=differences.dtype).view(np.uint8)


class _Filter(NamedTuple):
    apply: Callable[[Bytes, int], Bytes]
    undo: Callable[[Bytes, int], Bytes]


_FILTERS = {
    NONE: _Filter(_keep, _keep),
    BYTES: _Filter(_split_bytes, _join_bytes),
    BITS: _Filter(_split_bits, _join_bits),
    DELTA_BYTES: _Filter(_split_differences, _join_differences),
}
