"""How the bytes of one block become fewer; the only module that knows lz4 and zlib."""

import zlib

import lz4.block
import numpy as np

from navrl.storage.filters import Bytes

RAW, LZ4, HUFFMAN = "raw", "lz4", "huffman"
CODECS = (RAW, LZ4, HUFFMAN)
# Neither codec can do better (huffman saves one byte of each word at most), so whoever claims it lies.
MAX_RATIO = 255
_NO_WINDOW = -15  # raw deflate: no header, no checksum of its own


def compress(codec: str, block: Bytes, item_bytes: int) -> bytes:
    """The block compressed; not necessarily smaller."""
    if codec == LZ4:
        return lz4.block.compress(block, store_size=False)
    plain = block.size - block.size // item_bytes
    coder = zlib.compressobj(1, zlib.DEFLATED, _NO_WINDOW, 9, zlib.Z_HUFFMAN_ONLY)
    return b"".join((block[:plain].data, coder.compress(block[plain:].data), coder.flush()))


def decompress(codec: str, stored: bytes | bytearray, raw_bytes: int, item_bytes: int) -> Bytes:
    """The `raw_bytes` bytes that were compressed; ValueError if that is not what comes out."""
    if codec == LZ4:
        return _inflate_lz4(stored, raw_bytes)
    return _inflate_top_plane(stored, raw_bytes, item_bytes)


def _inflate_lz4(stored: bytes | bytearray, raw_bytes: int) -> Bytes:
    try:  # never writes beyond the size it is told
        raw = lz4.block.decompress(stored, uncompressed_size=raw_bytes)
    except lz4.block.LZ4BlockError as error:
        raise ValueError("lz4 cannot decode it") from error
    if len(raw) != raw_bytes:
        raise ValueError(f"it decodes to {len(raw):,} bytes, expected {raw_bytes:,}")
    return np.frombuffer(raw, np.uint8)


def _inflate_top_plane(stored: bytes | bytearray, raw_bytes: int, item_bytes: int) -> Bytes:
    top_bytes = raw_bytes // item_bytes
    plain = raw_bytes - top_bytes
    decoder = zlib.decompressobj(_NO_WINDOW)
    try:  # stops one byte after what is expected, however much there would be
        top = decoder.decompress(stored[plain:], top_bytes + 1)
    except zlib.error as error:
        raise ValueError("zlib cannot decode it") from error
    if len(top) != top_bytes or not decoder.eof or decoder.unused_data:
        raise ValueError(f"its top plane does not decode to {top_bytes:,} bytes")
    return np.frombuffer(stored[:plain] + top, np.uint8)
