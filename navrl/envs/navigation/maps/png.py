"""Greyscale PNG images as arrays, with the standard library and numpy only."""

import itertools
import struct
import zlib
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MOST_CHUNKS, _MOST_ROWS = 1 << 14, 1 << 14  # each takes a step of Python
_GREY, _NOT_INTERLACED = 0, 0


def decode_png(data: bytes, most_pixels: int) -> NDArray[np.uint16]:
    """Return the pixels (rows, columns), top row first, or raise a ValueError with the reason."""
    if not data.startswith(_SIGNATURE):
        raise ValueError("it is no PNG image")
    chunks = list(itertools.islice(_chunks(data), _MOST_CHUNKS + 1))
    if len(chunks) > _MOST_CHUNKS:
        raise ValueError(f"it has more than {_MOST_CHUNKS} chunks")
    if not chunks or chunks[0][0] != b"IHDR" or len(chunks[0][1]) != 13:
        raise ValueError("its header is damaged")
    width, height, bits, colour, _, _, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    if colour != _GREY or bits not in (8, 16) or interlace != _NOT_INTERLACED:
        raise ValueError(
            f"it has colour type {colour}, {bits} bits and interlace {interlace}; expected greyscale "
            "(type 0) of 8 or 16 bits without interlacing"
        )
    if not 0 < width * height <= most_pixels or height > _MOST_ROWS:
        raise ValueError(
            f"it has {width} x {height} pixels; expected 1 to {most_pixels} in all, in at most "
            f"{_MOST_ROWS} rows"
        )
    size = bits // 8
    packed = (body for name, body in chunks if name == b"IDAT")
    rows = _inflate(packed, height * (1 + width * size))
    pixels = _unfiltered(rows.reshape(height, 1 + width * size), size)
    return pixels.view(">u2" if size == 2 else "u1").astype(np.uint16)


def _chunks(content: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yield name and body of every chunk up to the end mark."""
    place, data = len(_SIGNATURE), memoryview(content)
    while place + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        name, end = bytes(data[place + 4 : place + 8]), place + 8 + length
        if end + 4 > len(data):
            break
        (checksum,) = struct.unpack_from(">I", data, end)
        if zlib.crc32(data[place + 4 : end]) != checksum:
            raise ValueError("it is damaged: a checksum is wrong")
        if name == b"IEND":
            return
        yield name, data[place + 8 : end]
        place = end + 4
    raise ValueError("it is cut off")


def _inflate(packed: Iterable[memoryview], expected: int) -> NDArray[np.uint8]:
    """Unpack exactly `expected` bytes; a longer stream is not unpacked any further."""
    stream, rows = zlib.decompressobj(), bytearray()
    try:
        for part in packed:
            rows += stream.decompress(part, expected + 1 - len(rows))
            if len(rows) > expected:
                break
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from error
    if len(rows) != expected:
        raise ValueError(f"it holds {len(rows)} bytes of pixels or more; expected {expected}")
    return np.frombuffer(rows, dtype=np.uint8)


def _unfiltered(rows: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Undo the filters, by which each row is written as a difference to its neighbours."""
    pixels = np.zeros((rows.shape[0], rows.shape[1] - 1), dtype=np.uint8)
    above = np.zeros(rows.shape[1] - 1, dtype=np.uint8)
    for row, target in zip(rows, pixels, strict=True):
        kind, line = int(row[0]), row[1:]
        if kind == 0:
            target[:] = line
        elif kind == 1:
            steps = line.reshape(-1, size)
            target[:] = np.add.accumulate(steps, axis=0, dtype=np.uint8).reshape(-1)
        elif kind == 2:
            target[:] = line + above
        elif kind in (3, 4):
            predict = _average if kind == 3 else _paeth
            target[:] = np.frombuffer(predict(line.tobytes(), above.tobytes(), size), np.uint8)
        else:
            raise ValueError(f"it is damaged: a row has filter {kind}")
        above = target
    return pixels


def _average(line: bytes, above: bytes, size: int) -> bytearray:
    """Undo the difference to the mean of the pixels to the left and above."""
    out = bytearray(size) + line  # `size` zeros stand left of the first pixel
    for index, over in enumerate(above):
        out[index + size] = (out[index + size] + ((out[index] + over) >> 1)) & 255
    return out[size:]


def _paeth(line: bytes, above: bytes, size: int) -> bytearray:
    """Undo the difference to whichever of left, above and corner is nearest to left + above - corner."""
    out = bytearray(size) + line
    corners = bytes(size) + above
    for index, over in enumerate(above):
        left, corner = out[index], corners[index]
        to_left, to_over = abs(over - corner), abs(left - corner)
        to_corner = abs(left + over - 2 * corner)
        if to_left <= to_over and to_left <= to_corner:
            predicted = left
        else:
            predicted = over if to_over <= to_corner else corner
        out[index + size] = (out[index + size] + predicted) & 255
    return out[size:]
