"""Point clouds in PCD files, ascii and binary."""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_KINDS = {"F": ("4", "8"), "I": ("1", "2", "4", "8"), "U": ("1", "2", "4", "8")}
_HEADER_BYTES = 1 << 14
_MOST_NUMBERS = 8  # per point that may be read, on average: fields that are skipped are few
_DTYPES = {"F": "f", "I": "i", "U": "u"}


class _Header(NamedTuple):
    names: list[str]
    formats: list[str]  # of numpy, little-endian
    counts: list[int]
    points: int
    encoding: str


def decode_pcd(data: bytes, most_points: int) -> NDArray[np.float64]:
    """Return the points (P, 3), or raise a ValueError with the reason."""
    header, body = _read_header(data)
    if not {"x", "y", "z"} <= set(header.names):
        some = ", ".join(header.names[:8])
        raise ValueError(f"it has the fields {some:.80}; expected x, y and z among them")
    if header.points > most_points:
        raise ValueError(f"it has {header.points} points; at most {most_points} are read")
    numbers, most = header.points * sum(header.counts), most_points * _MOST_NUMBERS
    if numbers > most:
        raise ValueError(f"its points have {numbers} numbers; at most {most} are read")
    if header.encoding == "ascii":
        return _from_text(header, body)
    if header.encoding == "binary":
        return _from_bytes(header, body)
    raise ValueError(f"its data are {header.encoding}; expected ascii or binary: save it again")


def _read_header(data: bytes) -> tuple[_Header, memoryview]:
    """Return the header, which ends with the line DATA, and the bytes after it."""
    words: dict[str, list[str]] = {}
    place = 0
    while "DATA" not in words:
        end = data.find(b"\n", place, _HEADER_BYTES)
        if end < 0:
            raise ValueError(
                f"it is no PCD file: it has no DATA line in its first {_HEADER_BYTES} bytes"
            )
        line = data[place:end].decode("ascii", errors="replace").partition("#")[0].split()
        place = end + 1
        if line:
            words[line[0].upper()] = line[1:]
    try:
        return _understood(words), memoryview(data)[place:]
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(
            f"its header is damaged ({type(error).__name__}: {error!s:.80})"
        ) from error


def _understood(words: dict[str, list[str]]) -> _Header:
    names, sizes, types = words["FIELDS"], words["SIZE"], words["TYPE"]
    counts = [_whole(word) for word in words.get("COUNT", ["1"] * len(names))]
    if not len(names) == len(sizes) == len(types) == len(counts) or min(counts) < 1:
        raise ValueError("FIELDS, SIZE, TYPE and COUNT do not fit together")
    for size, kind in zip(sizes, types, strict=True):
        if size not in _KINDS.get(kind, ()):
            raise ValueError(f"a field has TYPE {kind} and SIZE {size}")
    for axis in ("x", "y", "z"):
        if names.count(axis) > 1 or (axis in names and counts[names.index(axis)] != 1):
            raise ValueError(f"{axis} is not one number")
    area = _whole(words["WIDTH"][0]) * _whole(words["HEIGHT"][0])
    points = _whole(words["POINTS"][0]) if "POINTS" in words else area
    if points != area or points < 0:
        raise ValueError(f"POINTS {points} are not WIDTH times HEIGHT")
    formats = [f"<{_DTYPES[kind]}{size}" for size, kind in zip(sizes, types, strict=True)]
    return _Header(names, formats, counts, points, words["DATA"][0])


def _whole(word: str) -> int:
    if not re.fullmatch("-?[0-9]{1,18}", word):
        raise ValueError(f"{word:.20} is no whole number of at most 18 digits")
    return int(word)


def _from_text(header: _Header, body: memoryview) -> NDArray[np.float64]:
    width = sum(header.counts)
    words = _words(body)
    if words != header.points * width:
        raise ValueError(f"it holds {words} numbers; expected {header.points} points of {width}")
    fault = "it holds what is no number"
    try:
        numbers = np.fromstring(bytes(body), dtype=np.float64, sep=" ")[
            :words
        ]  # of none it makes one
    except ValueError as error:
        raise ValueError(fault) from error
    if len(numbers) != words:
        raise ValueError(fault)
    table = numbers.reshape(header.points, width)
    first = np.cumsum([0, *header.counts])
    return table[:, [int(first[header.names.index(axis)]) for axis in ("x", "y", "z")]]


def _words(text: memoryview) -> int:
    """Count the words, block by block: their number is compared before any of them is kept."""
    words, before = 0, False
    for start in range(0, len(text), 1 << 20):
        inside = np.frombuffer(text[start : start + (1 << 20)], dtype=np.uint8) > ord(" ")
        words += int(np.count_nonzero(inside[1:] > inside[:-1])) + int(inside[0] and not before)
        before = bool(inside[-1])
    return words


def _from_bytes(header: _Header, body: memoryview) -> NDArray[np.float64]:
    fields = [
        (str(number), kind, (count,))
        for number, (kind, count) in enumerate(zip(header.formats, header.counts, strict=True))
    ]
    record = np.dtype(fields)
    if len(body) < header.points * record.itemsize:
        raise ValueError(
            f"it is cut off: {len(body)} bytes of points; expected {header.points * record.itemsize}"
        )
    table = np.frombuffer(body, dtype=record, count=header.points)
    columns = [table[str(header.names.index(axis))][:, 0] for axis in ("x", "y", "z")]
    return np.stack(columns, axis=1).astype(np.float64)
