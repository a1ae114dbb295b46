"""One checked file of named tensors and JSON metadata; docs/checkpoint_format.md has every byte."""

import hashlib
import json
import math
import os
import stat
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from navrl.checkpoint.atomic import replace_file

MAGIC = b"NVRL\x02\r\n\x1a"
VERSION = 2
MAX_BYTES = 16 << 30  # a larger file is refused unless the caller says otherwise
MAX_HEADER_BYTES = 8 << 20  # about 80,000 tensors; parsed JSON needs some 20 times its text
MAX_DIMENSIONS = 32
CODECS = ("raw",)
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}
_PREFIX = struct.Struct(f"<{len(MAGIC)}sQQ")  # magic, header length, payload length
_DIGEST_BYTES = hashlib.sha256().digest_size
_LARGEST = 2**62  # bytes a shape may span, so that no stride overflows


class CorruptFile(ValueError):  # noqa: N818 (it says what it is without a suffix)
    """A file that is not what was written; the message names the file and the part."""

    def __init__(self, path: Path, part: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {part}: {reason}")
        self.path = path
        self.part = part


class ForeignFile(CorruptFile):
    """A file that was never one of ours."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "header", "it does not start like one")
        self.args = (f"{path} is not a checkpoint of navrl; expected a file that navrl has saved",)


class Row(NamedTuple):
    """One line of the header's tensor table; offset and length are bytes of the payload."""

    name: str
    dtype: str
    shape: list[int]
    codec: str
    layout: int
    offset: int
    length: int
    crc32: int


def write(path: Path, tensors: Mapping[str, Tensor], meta: dict[str, Any]) -> str:
    """Write one container atomically and durably; returns its sha256 (hex), the file's identity."""
    rows: list[Row] = []
    chunks: list[bytearray] = []
    offset = 0
    for name, tensor in tensors.items():
        chunk = _encode(name, tensor)
        dtype, crc32 = _dtype_name(tensor), zlib.crc32(chunk)
        rows.append(Row(name, dtype, list(tensor.shape), "raw", 0, offset, len(chunk), crc32))
        chunks.append(chunk)
        offset += len(chunk)
    content = {"v": VERSION, "meta": meta, "t": rows}
    header = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    if len(header) > MAX_HEADER_BYTES:
        raise ValueError(
            f"header of {path} has {len(header):,} bytes, at most {MAX_HEADER_BYTES:,} fit; "
            "store long lists of numbers as tensors"
        )
    parts: list[bytes | bytearray] = [_PREFIX.pack(MAGIC, len(header), offset), header, *chunks]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    replace_file(path, [*parts, digest.digest()])
    return digest.hexdigest()


def read(path: Path, max_bytes: int = MAX_BYTES) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors (fresh, writable, on the CPU) and the metadata of an intact file."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
        raise CorruptFile(path, "length", "not a regular file")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        header_bytes, payload_bytes = _read_prefix(path, file, max_bytes, digest)
        header = file.read(header_bytes)
        digest.update(header)
        meta, rows = _parse_header(path, header)
        _check_rows(path, rows, payload_bytes)
        tensors = {row.name: _read_tensor(path, file, row, digest) for row in rows}
        if file.read(_DIGEST_BYTES + 1) != digest.digest():
            raise CorruptFile(path, "checksum", "the sha256 at the end is not that of the content")
    return tensors, meta


def read_digest(path: Path) -> str:
    """The sha256 (hex) that `write` returned for this file; checks nothing else."""
    with path.open("rb") as file:
        file.seek(-_DIGEST_BYTES, os.SEEK_END)
        return file.read().hex()


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _encode(name: str, tensor: Tensor) -> bytearray:
    """The bytes of a tensor in row-major order, copied: they alias nothing."""
    storable = tensor.layout is torch.strided and not tensor.is_meta
    if not storable or _dtype_name(tensor) not in DTYPES or tensor.dim() > MAX_DIMENSIONS:
        raise TypeError(
            f"tensor {name!r} cannot be stored: it is {tensor.layout} {tensor.dtype} with "
            f"{tensor.dim()} dimensions on {tensor.device.type}; expected a dense one of at most "
            f"{MAX_DIMENSIONS} dimensions and dtype {', '.join(DTYPES)}"
        )
    chunk = bytearray(tensor.numel() * tensor.element_size())
    if chunk:
        torch.frombuffer(chunk, dtype=tensor.dtype).view(tensor.shape).copy_(tensor.detach())
    return chunk


def _read_prefix(path: Path, file: BinaryIO, max_bytes: int, digest: Any) -> tuple[int, int]:
    """Header and payload length, once they agree with the size of the file."""
    file_bytes = os.fstat(file.fileno()).st_size
    if file_bytes > max_bytes:
        raise CorruptFile(path, "length", f"{file_bytes:,} bytes, at most {max_bytes:,} are read")
    prefix = file.read(_PREFIX.size)
    if prefix[: len(MAGIC)] != MAGIC:
        raise ForeignFile(path)
    if len(prefix) < _PREFIX.size:
        raise CorruptFile(path, "length", f"only {file_bytes} bytes")
    _, header_bytes, payload_bytes = _PREFIX.unpack(prefix)
    expected_bytes = _PREFIX.size + header_bytes + payload_bytes + _DIGEST_BYTES
    if file_bytes != expected_bytes:
        raise CorruptFile(path, "length", f"{file_bytes:,} bytes, expected {expected_bytes:,}")
    if header_bytes > MAX_HEADER_BYTES:
        raise CorruptFile(path, "header", f"{header_bytes:,} bytes, at most {MAX_HEADER_BYTES:,}")
    digest.update(prefix)
    return header_bytes, payload_bytes


def _parse_header(path: Path, header: bytes) -> tuple[dict[str, Any], list[Row]]:
    try:
        content = json.loads(
            header.decode(), parse_constant=_refuse_constant, object_pairs_hook=_unique
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
    if any(not isinstance(row, list) or len(row) != len(Row._fields) for row in table):
        raise CorruptFile(path, "header", f"a row of t is not a list of {len(Row._fields)}")
    return meta, [Row(*row) for row in table]


def _check_rows(path: Path, rows: list[Row], payload_bytes: int) -> None:
    """Refuse a table that does not tile the payload exactly, before anything is allocated."""
    names: set[str] = set()
    end = 0
    for row in rows:
        reason = _fault(row, end)
        if reason is None and row.name in names:
            reason = "the name occurs twice"
        if reason is not None:
            raise CorruptFile(path, _part(row), reason)
        names.add(row.name)
        end += row.length
    if end != payload_bytes:
        raise CorruptFile(path, "length", f"tensors fill {end:,} of {payload_bytes:,} bytes")


def _fault(row: Row, end: int) -> str | None:
    """What is wrong with one row, given where the previous one ended."""
    if not isinstance(row.name, str):
        return "the name is not a string"
    if not isinstance(row.dtype, str) or row.dtype not in DTYPES:
        return f"unknown dtype {row.dtype!r:.40}, known are {', '.join(DTYPES)}"
    if row.codec not in CODECS or not _is_count(row.layout) or row.layout != 0:
        known = ", ".join(CODECS)
        return f"unknown codec {row.codec!r:.40}, layout {row.layout!r:.20}, known is {known} 0"
    shape_bytes = _shape_bytes(row)
    if shape_bytes is None:
        return "the shape is not a short list of sizes"
    if not _is_count(row.length) or row.length != shape_bytes:
        return f"length {row.length!r:.40} does not follow from shape and dtype"
    if not _is_count(row.offset) or row.offset != end:
        return f"offset {row.offset!r:.40}, expected {end}"
    return None if _is_count(row.crc32) else "the crc32 is not a number"


def _shape_bytes(row: Row) -> int | None:
    """Bytes of a raw tensor; None unless its shape is one that torch can represent."""
    if not isinstance(row.shape, list) or len(row.shape) > MAX_DIMENSIONS:
        return None
    if not all(_is_count(size) for size in row.shape):
        return None
    item_bytes = DTYPES[row.dtype].itemsize
    # Strides treat a size of 0 as 1, so an empty tensor can overflow too.
    if math.prod(max(size, 1) for size in row.shape) * item_bytes > _LARGEST:
        return None
    return math.prod(row.shape) * item_bytes


def _read_tensor(path: Path, file: BinaryIO, row: Row, digest: Any) -> Tensor:
    buffer = bytearray(row.length)
    if file.readinto(buffer) != row.length:  # type: ignore[attr-defined]
        raise CorruptFile(path, "length", f"the file ends inside {_part(row)}")
    digest.update(buffer)
    if zlib.crc32(buffer) != row.crc32:
        raise CorruptFile(path, _part(row), "its bytes are not those that were written (crc32)")
    dtype = DTYPES[row.dtype]
    if not buffer:
        return torch.empty(row.shape, dtype=dtype)
    if dtype == torch.bool and int(torch.frombuffer(buffer, dtype=torch.uint8).max()) > 1:
        raise CorruptFile(path, _part(row), "a bool is neither 0 nor 1")
    # A clone owns memory with torch's own alignment, on which the last bit of a matmul may depend.
    return torch.frombuffer(buffer, dtype=dtype).view(row.shape).clone()


def _part(row: Row) -> str:
    return f"tensor {row.name!r:.200}"


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not allowed")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key occurs twice")
    return content
