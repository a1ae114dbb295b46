"""The first bytes of a container and its table of tensors; docs/container_format.md has every byte."""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

from navrl.storage.faults import CorruptFile, ForeignFile
from navrl.storage.row import Row, fault_of

VERSION = 3
_FAMILY, _LINE_ENDS = b"NVRL", b"\r\n\x1a"
MAGIC = _FAMILY + bytes([VERSION]) + _LINE_ENDS
MAX_HEADER_BYTES = 8 << 20  # parsed JSON needs about 20 times its text
MAX_TENSORS = 8192  # each costs a reader some 0.1 ms, however small it is
ALIGNMENT = 64  # of every tensor in the file, so that what is mapped is aligned in memory too

# Magic; bytes of the header, of the payload, of the decoded tensors.
_SIZES = struct.Struct("<8sQQQ")
DIGEST_BYTES = hashlib.sha256().digest_size
PREFIX_BYTES = _SIZES.size + DIGEST_BYTES


class Sizes(NamedTuple):
    """What the first bytes say."""

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
        """Where in the file the payload begins."""
        return PREFIX_BYTES + self.sizes.header


def pack(path: Path, rows: list[Row], meta: dict[str, Any]) -> tuple[bytes, str]:
    """The bytes before the payload, and their sha256 (hex)."""
    if len(rows) > MAX_TENSORS:
        raise ValueError(
            f"{path} would hold {len(rows):,} tensors, at most {MAX_TENSORS:,} fit; stack those of one shape"
        )
    content = {"v": VERSION, "meta": meta, "t": [row[:-1] for row in rows]}
    text = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * aligned_gap(PREFIX_BYTES + len(text))
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(
            f"header of {path} has {len(text):,} bytes, at most {MAX_HEADER_BYTES:,} fit; "
            "store long lists of numbers as tensors"
        )
    end = rows[-1].end if rows else 0
    sizes = _SIZES.pack(MAGIC, len(text), end, sum(row.raw_bytes for row in rows))
    digest = hashlib.sha256(sizes + text)
    return sizes + digest.digest() + text, digest.hexdigest()


def parse_prefix(path: Path, prefix: bytes, file_bytes: int) -> Sizes:
    """The sizes, once they agree with that of the file."""
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
    """The header, with nothing in it that a reader could not rely on."""
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
    """Bytes from there to where a tensor may begin."""
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


def _rows(path: Path, table: list[Any]) -> list[Row]:
    """The table, refused unless it tiles the payload exactly, before anything is allocated."""
    fields = len(Row._fields) - 1  # where a tensor starts follows from those before it
    rows: list[Row] = []
    names: set[str] = set()
    end = 0
    for entry in table:
        if not isinstance(entry, list) or len(entry) != fields:
            raise CorruptFile(path, "header", f"a row of t is not a list of {fields}")
        row = Row._make([*entry, end + aligned_gap(end)])
        reason = fault_of(row)
        if reason is None and row.name in names:
            reason = "the name occurs twice"
        if reason is not None:
            raise CorruptFile(path, row.part, reason)
        names.add(row.name)
        rows.append(row)
        end = row.end
    return rows


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not allowed")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key occurs twice")
    return content
