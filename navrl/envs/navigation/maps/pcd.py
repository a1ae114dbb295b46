"""Point clouds in PCD files, ascii and binary."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_KINDS = {"F": ("4", "8"), "I": ("1", "2", "4", "8"), "U": ("1", "2", "4", "8")}
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
        raise ValueError(f"it has the fields {header.names}; expected x, y and z among them")
    if header.points > most_points:
        raise ValueError(f"it has {header.points} points; at most {most_points} are read")
    if header.encoding == "ascii":
        return _from_text(header, body)
    if header.encoding == "binary":
        return _from_bytes(header, body)
    raise ValueError(f"its data are {header.encoding}; expected ascii or binary: save it again")


def _read_header(data: bytes) -> tuple[_Header, bytes]:
    """Return the header, which ends with the line DATA, and the bytes after it."""
    words: dict[str, list[str]] = {}
    place = 0
    while "DATA" not in words:
        end = data.find(b"\n", place)
        if end < 0:
            raise ValueError("it is no PCD file: it has no DATA line")
        line = data[place:end].decode("ascii", errors="replace").partition("#")[0].split()
        place = end + 1
        if line:
            words[line[0].upper()] = line[1:]
    try:
        return _understood(words), data[place:]
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(f"its header is damaged ({type(error).__name__}: {error})") from error


def _understood(words: dict[str, list[str]]) -> _Header:
    names, sizes, types = words["FIELDS"], words["SIZE"], words["TYPE"]
    counts = [int(word) for word in words.get("COUNT", ["1"] * len(names))]
    if not len(names) == len(sizes) == len(types) == len(counts) or min(counts) < 1:
        raise ValueError("FIELDS, SIZE, TYPE and COUNT do not fit together")
    for size, kind in zip(sizes, types, strict=True):
        if size not in _KINDS.get(kind, ()):
            raise ValueError(f"a field has TYPE {kind} and SIZE {size}")
    for axis in ("x", "y", "z"):
        if names.count(axis) > 1 or (axis in names and counts[names.index(axis)] != 1):
            raise ValueError(f"{axis} is not one number")
    area = int(words["WIDTH"][0]) * int(words["HEIGHT"][0])
    points = int(words["POINTS"][0]) if "POINTS" in words else area
    if points != area or points < 0:
        raise ValueError(f"POINTS {points} are not WIDTH times HEIGHT")
    formats = [f"<{_DTYPES[kind]}{size}" for size, kind in zip(sizes, types, strict=True)]
    return _Header(names, formats, counts, points, words["DATA"][0])


def _from_text(header: _Header, body: bytes) -> NDArray[np.float64]:
    words = body.decode("ascii", errors="replace").split()
    width = sum(header.counts)
    if len(words) != header.points * width:
        raise ValueError(
            f"it holds {len(words)} numbers; expected {header.points} points of {width}"
        )
    try:
        table = np.array(words, dtype=np.float64).reshape(header.points, width)
    except ValueError as error:
        raise ValueError(f"it holds what is no number: {error}") from error
    first = np.cumsum([0, *header.counts])
    return table[:, [int(first[header.names.index(axis)]) for axis in ("x", "y", "z")]]


def _from_bytes(header: _Header, body: bytes) -> NDArray[np.float64]:
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
