"""Map files written by hand, for the tests of what reads them."""

import struct
import zlib

import numpy as np


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def filtered(rows, kinds, size):
    """The rows (H, bytes) as differences, by the definition of the five PNG filters."""
    out = bytearray()
    above = [0] * rows.shape[1]
    for row, kind in zip(rows.tolist(), kinds, strict=True):
        out.append(kind)
        for place, value in enumerate(row):
            left = row[place - size] if place >= size else 0
            corner = above[place - size] if place >= size else 0
            over = above[place]
            guess = left + over - corner
            distances = [abs(guess - left), abs(guess - over), abs(guess - corner)]
            paeth = (left, over, corner)[distances.index(min(distances))]
            predicted = (0, left, over, (left + over) // 2, paeth)[kind]
            out.append((value - predicted) % 256)
        above = row
    return bytes(out)


def png(pixels, *, bits=8, kinds=None, colour=0, interlace=0, parts=2):
    """A greyscale image (H, W), top row first; rows take the filters in turn."""
    height, width = pixels.shape
    size = bits // 8
    rows = (
        np.ascontiguousarray(pixels.astype(f">u{size}"))
        .view(np.uint8)
        .reshape(height, width * size)
    )
    kinds = [row % 5 for row in range(height)] if kinds is None else kinds
    packed = zlib.compress(filtered(rows, kinds, size))
    cut = max(1, len(packed) // parts)
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlace)
    data = [chunk(b"IDAT", packed[i : i + cut]) for i in range(0, len(packed), cut)]
    note = chunk(b"tEXt", b"Comment\0nothing to see")
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + note + b"".join(data) + chunk(b"IEND", b"")
    )


def pcd(points, *, encoding="ascii", fields=("x", "y", "z"), sizes=None, types=None, **words):
    """A point cloud; `points` has one column per number, fields of several numbers named in COUNT."""
    points = np.asarray(points, dtype=np.float64)
    sizes, types = sizes or ["4"] * len(fields), types or ["F"] * len(fields)
    counts = words.pop("counts", ["1"] * len(fields))
    header = {
        "VERSION": ".7",
        "FIELDS": " ".join(fields),
        "SIZE": " ".join(sizes),
        "TYPE": " ".join(types),
        "COUNT": " ".join(counts),
        "WIDTH": str(len(points)),
        "HEIGHT": "1",
        "VIEWPOINT": "0 0 0 1 0 0 0",
        "POINTS": str(len(points)),
        "DATA": encoding,
    } | words
    lines = ["# .PCD v.7 - Point Cloud Data file format"]
    lines += [f"{name} {value}" for name, value in header.items() if value is not None]
    head = ("\n".join(lines) + "\n").encode()
    if encoding == "ascii":
        return (
            head + "\n".join(" ".join(f"{n:.9g}" for n in row) for row in points).encode() + b"\n"
        )
    codes = {"F4": "f", "F8": "d", "U1": "B", "U2": "H", "I4": "i", "U4": "I", "I8": "q"}
    code = "<" + "".join(
        codes[kind + size] * int(count)
        for kind, size, count in zip(types, sizes, counts, strict=True)
    )
    rows = [
        [
            number if letter in "fd" else int(number)
            for number, letter in zip(row, code[1:], strict=True)
        ]
        for row in points.tolist()
    ]
    return head + b"".join(struct.pack(code, *row) for row in rows)
