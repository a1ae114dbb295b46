"""The header of a container: sizes, metadata, and a table with one row per tensor.

docs/container_format.md describes every byte.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from navrl.storage.codec import CODECS, FILTERS, MAX_RATIO, NONE, RAW
from navrl.storage.memory import usable_bytes

VERSION = 3
_FAMILY, _LINE_ENDS = b"NVRL", b"\r\n\x1a"
MAGIC = _FAMILY + bytes([VERSION]) + _LINE_ENDS
MAX_HEADER_BYTES = 4 << 20  # parsed JSON of strings and numbers needs up to 13 times its text
MAX_BRACKETS = 1 << 17  # lists and objects in it, each of which needs some 200 bytes
MAX_TENSORS = 8192  # each costs a reader some 0.1 ms, however small it is
MAX_DIMENSIONS = 32
# A reader may have to hold this much besides the tensors, a few times per thread.
MAX_BLOCK_BYTES = 16 << 20
ALIGNMENT = 64  # of every tensor in the file, so that a mapped tensor is aligned in memory too
ITEM_BYTES = {  # of one value, by the name of its dtype
    **{"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2},
    **{"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1},
}
# Magic; bytes of the header, of the payload, of the decoded tensors.
_SIZES = struct.Struct("<8sQQQ")
DIGEST_BYTES = hashlib.sha256().digest_size
PREFIX_BYTES = _SIZES.size + DIGEST_BYTES
LARGEST = 2**62  # bytes a shape may span, so that no stride overflows
_DIGEST = re.compile("[0-9a-f]{64}")


class CorruptFile(ValueError):  # noqa: N818 (the name is clear without a suffix)
    """A file that does not hold what was written; the message names the file and the part."""

    def __init__(self, path: Path, part: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {part}: {reason}")
        self.path = path
        self.part = part
        self.verdict = f"damaged: {part}"  # in a few words, where the file is named already


class ForeignFile(CorruptFile):
    """A file of another program, or of a version, kind or codec that is not read here."""

    def __init__(self, path: Path, sentence: str, part: str = "header") -> None:
        super().__init__(path, part, sentence)
        self.args = (f"{path} {sentence}",)
        self.verdict = sentence


class TooLarge(ForeignFile):
    """A file that may be intact, and that this machine has no memory for."""

    def __init__(self, path: Path, found: str, most: int) -> None:
        sentence = f"is too large: its length is {found}, at most {most:,} are read"
        super().__init__(path, f"{sentence}; free memory, or read it where there is more", "length")


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
        """True if it is stored uncompressed, because it would not have become smaller."""
        return self.stored_bytes == self.raw_bytes


class Row(NamedTuple):
    """A tensor in the table; `start` is not stored but follows from the rows before it."""

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
        """The name of this tensor in error messages."""
        return f"tensor {self.name!r:.200}"

    @property
    def item_bytes(self) -> int:
        """Bytes of one value."""
        return ITEM_BYTES[self.dtype]

    @property
    def raw_bytes(self) -> int:
        """Bytes of the tensor in memory."""
        return math.prod(self.shape) * self.item_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes at one index of the first dimension."""
        return math.prod(self.shape[1:]) * self.item_bytes

    @property
    def stored_bytes(self) -> int:
        """Bytes of its blocks in the file."""
        return sum(length for length, _ in self.stored)

    @property
    def end(self) -> int:
        """The end of its last block in the payload."""
        return self.start + self.stored_bytes

    def blocks(self) -> Iterator[Block]:
        """Yield its blocks in the order of the file."""
        start, raw_bytes = self.start, self.raw_bytes
        for number, (length, sha256) in enumerate(self.stored):
            raw_start = number * self.block_bytes
            size = min(self.block_bytes, raw_bytes - raw_start)
            yield Block(number, raw_start, size, start, length, sha256)
            start += length


class Sizes(NamedTuple):
    """The sizes in the first bytes of a file."""

    header: int
    payload: int
    decoded: int

    @property
    def file(self) -> int:
        """Bytes of the whole file."""
        return PREFIX_BYTES + self.header + self.payload


class Header(NamedTuple):
    """Everything but the payload; its sha256, which covers that of every block, is the file's identity."""

    sizes: Sizes
    meta: dict[str, Any]
    rows: list[Row]
    sha256: str

    @property
    def payload_start(self) -> int:
        """The position in the file at which the payload begins."""
        return PREFIX_BYTES + self.sizes.header


def read_header(path: Path, max_bytes: int | None = None) -> Header:
    """Return the checked header of a file; the tensors are not looked at."""
    max_bytes = usable_bytes() if max_bytes is None else max_bytes
    with opened(path) as descriptor:
        return header_of(path, descriptor, max_bytes)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open a regular file, and close it in the end."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
        raise CorruptFile(path, "length", "not a regular file")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def header_of(path: Path, descriptor: int, max_bytes: int) -> Header:
    """Return the checked header of an open file."""
    file_bytes = os.fstat(descriptor).st_size
    if file_bytes > max_bytes:
        raise TooLarge(path, f"{file_bytes:,} bytes", max_bytes)
    # Files of the system in /proc have no length, and reading one may wait for ever.
    prefix = os.pread(descriptor, PREFIX_BYTES, 0) if file_bytes else b""
    sizes = parse_prefix(path, prefix, file_bytes)
    return parse(path, prefix, sizes, os.pread(descriptor, sizes.header, PREFIX_BYTES))


def pack(path: Path, rows: list[Row], meta: dict[str, Any]) -> tuple[bytes, str]:
    """Return the bytes before the payload, and their sha256 (hex)."""
    if len(rows) > MAX_TENSORS:
        raise ValueError(
            f"{path} would hold {len(rows):,} tensors, at most {MAX_TENSORS:,} fit; stack those of one shape"
        )
    content = {"v": VERSION, "meta": meta, "t": [row[:-1] for row in rows]}
    text = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * aligned_gap(PREFIX_BYTES + len(text))
    brackets = text.count(b"[") + text.count(b"{")
    if len(text) > MAX_HEADER_BYTES or brackets > MAX_BRACKETS:
        raise ValueError(
            f"header of {path} has {len(text):,} bytes and {brackets:,} brackets, at most "
            f"{MAX_HEADER_BYTES:,} and {MAX_BRACKETS:,} fit; store long lists of numbers as tensors"
        )
    end = rows[-1].end if rows else 0
    sizes = _SIZES.pack(MAGIC, len(text), end, sum(row.raw_bytes for row in rows))
    digest = hashlib.sha256(sizes + text)
    return sizes + digest.digest() + text, digest.hexdigest()


def parse_prefix(path: Path, prefix: bytes, file_bytes: int) -> Sizes:
    """Return the sizes; raise CorruptFile unless they agree with that of the file."""
    if prefix[: len(MAGIC)] != MAGIC:
        raise _foreign(path, prefix)
    if len(prefix) < PREFIX_BYTES:
        raise CorruptFile(path, "length", f"only {file_bytes} bytes")
    _, *numbers = _SIZES.unpack_from(prefix)
    sizes = Sizes(*numbers)
    if file_bytes != sizes.file:
        raise CorruptFile(path, "length", f"{file_bytes:,} bytes, expected {sizes.file:,}")
    if sizes.header > MAX_HEADER_BYTES:
        raise CorruptFile(path, "header", f"{sizes.header:,} bytes, at most {MAX_HEADER_BYTES:,}")
    return sizes


def parse(path: Path, prefix: bytes, sizes: Sizes, text: bytes) -> Header:
    """Return the header, every field of which has been checked."""
    digest = hashlib.sha256(prefix[: _SIZES.size] + text)
    if prefix[_SIZES.size :] != digest.digest():
        raise CorruptFile(path, "header", "its checksum is not that of its content")
    meta, table = _content(path, text)
    rows = _rows(path, table)
    end = rows[-1].end if rows else 0
    if end != sizes.payload or aligned_gap(PREFIX_BYTES + sizes.header):
        raise CorruptFile(path, "length", f"tensors fill {end:,} of {sizes.payload:,} bytes")
    if sum(row.raw_bytes for row in rows) != sizes.decoded:
        raise CorruptFile(path, "length", "the tensors do not add up to the decoded size")
    return Header(sizes, meta, rows, digest.hexdigest())


def aligned_gap(position: int) -> int:
    """Return the number of bytes from `position` to the next place at which a tensor may begin."""
    return -position % ALIGNMENT


def _foreign(path: Path, prefix: bytes) -> ForeignFile:
    family, version, line_ends = prefix[:4], prefix[4:5], prefix[5:8]
    if family == _FAMILY and line_ends == _LINE_ENDS:
        return ForeignFile(
            path,
            f"is of format version {version[0]}, and this navrl reads version {VERSION} only; "
            "open it with the navrl that saved it",
        )
    return ForeignFile(path, "is not a file of navrl; expected one that navrl has saved")


def _content(path: Path, text: bytes) -> tuple[dict[str, Any], list[Any]]:
    brackets = text.count(b"[") + text.count(b"{")
    if brackets > MAX_BRACKETS:
        raise CorruptFile(path, "header", f"{brackets:,} brackets, at most {MAX_BRACKETS:,}")
    try:
        content = json.loads(
            text.decode(), parse_constant=_refuse_constant, object_pairs_hook=_unique
        )
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad JSON, nested too deeply
        raise CorruptFile(path, "header", f"not JSON ({error})") from error
    if not isinstance(content, dict) or content.keys() != {"v", "meta", "t"}:
        raise CorruptFile(path, "header", "expected an object with the keys v, meta and t")
    if content["v"] != VERSION:
        raise CorruptFile(path, "header", f"version {content['v']!r:.20}, expected {VERSION}")
    meta, table = content["meta"], content["t"]
    if not isinstance(meta, dict) or not isinstance(table, list):
        raise CorruptFile(path, "header", "meta must be an object and t a list")
    if len(table) > MAX_TENSORS:
        raise CorruptFile(path, "header", f"{len(table):,} tensors, at most {MAX_TENSORS:,}")
    return meta, table


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not allowed")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key occurs twice")
    return content


def _rows(path: Path, table: list[Any]) -> list[Row]:
    """Return the table; refuse it before anything is allocated unless it tiles the payload exactly."""
    fields = len(Row._fields) - 1  # the start of a tensor follows from those before it
    rows: list[Row] = []
    names: set[str] = set()
    end = 0
    for entry in table:
        if not isinstance(entry, list) or len(entry) != fields:
            raise CorruptFile(path, "header", f"a row of t is not a list of {fields}")
        row = Row._make([*entry, end + aligned_gap(end)])
        _check_codec(path, row)
        reason = _row_fault(row)
        if reason is None and row.name in names:
            reason = "the name occurs twice"
        if reason is not None:
            raise CorruptFile(path, row.part, reason)
        names.add(row.name)
        rows.append(row)
        end = row.end
    return rows


def _check_codec(path: Path, row: Row) -> None:
    """Raise ForeignFile for a codec that only another navrl reads; the header itself is intact."""
    if row.codec not in CODECS:
        raise ForeignFile(
            path,
            f"holds {row.part} in the codec {row.codec!r:.40}, and this navrl reads "
            f"{' and '.join(CODECS)} only; open it with the navrl that saved it",
        )


def _row_fault(row: Row) -> str | None:
    """Return a description of the first fault in an untrusted row, or None."""
    if not isinstance(row.name, str):
        return "the name is not a string"
    if not isinstance(row.dtype, str) or row.dtype not in ITEM_BYTES:
        return f"unknown dtype {row.dtype!r:.40}, known are {', '.join(ITEM_BYTES)}"
    if not _is_shape(row):
        return "the shape is not a short list of sizes"
    return _filter_fault(row) or _axis_fault(row) or _blocks_fault(row)


def _is_shape(row: Row) -> bool:
    """Return whether torch can represent the shape."""
    if not isinstance(row.shape, list) or len(row.shape) > MAX_DIMENSIONS:
        return False
    if not all(is_count(size) for size in row.shape):
        return False
    # Strides treat a size of 0 as 1, so an empty tensor can overflow too.
    return math.prod(max(size, 1) for size in row.shape) * row.item_bytes <= LARGEST


def _filter_fault(row: Row) -> str | None:
    if row.filter not in FILTERS:
        return f"unknown filter {row.filter!r:.40}, known are {', '.join(FILTERS)}"
    if row.codec == RAW and (row.filter != NONE or row.axis is not None):
        return "codec raw goes with filter none and axis null"
    return None


def _axis_fault(row: Row) -> str | None:
    if not is_count(row.block_bytes) or not 0 < row.block_bytes <= MAX_BLOCK_BYTES:
        return f"blocks of {row.block_bytes!r:.40} bytes, expected 1 to {MAX_BLOCK_BYTES:,}"
    if row.block_bytes % row.item_bytes:
        return f"blocks of {row.block_bytes} bytes would cut values of {row.item_bytes} bytes"
    if row.axis is None:
        return None
    if not is_count(row.axis) or not 0 < row.axis < len(row.shape) - 1 or not row.raw_bytes:
        return f"axis {row.axis!r:.40} is not one between the first and the last of {row.shape}"
    if row.block_bytes % row.row_bytes:
        return f"blocks of {row.block_bytes} bytes would cut rows of {row.row_bytes} bytes"
    return None


def _blocks_fault(row: Row) -> str | None:
    if not isinstance(row.stored, list) or len(row.stored) != -(-row.raw_bytes // row.block_bytes):
        return "the number of its blocks does not follow from shape and dtype"
    for pair in row.stored:
        if not isinstance(pair, list) or len(pair) != 2 or not is_count(pair[0]):
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


def is_count(value: object) -> TypeGuard[int]:
    """Return whether an untrusted value is an int that may be a size."""
    return type(value) is int and 0 <= value <= LARGEST
