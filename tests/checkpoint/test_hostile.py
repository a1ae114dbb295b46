"""Files made by an adversary, with correct checksums: only CorruptFile, and no large allocation."""

import hashlib
import json
import os
import resource
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch

from navrl.checkpoint import container
from navrl.checkpoint.container import CorruptFile, read


def assert_refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(CorruptFile) as caught:
        read(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def sign(header: bytes, payload: bytes = b"") -> bytes:
    """A file around any header, with correct lengths and sha256, so that the parser is reached."""
    body = container.MAGIC + struct.pack("<QQ", len(header), len(payload)) + header + payload
    return body + hashlib.sha256(body).digest()


def signed_table(*rows: Any, payload: bytes = b"") -> bytes:
    return sign(json.dumps({"v": 2, "meta": {}, "t": rows}).encode(), payload)


def row(**changes: Any) -> list[Any]:
    fields = {"name": "a", "dtype": "float32", "shape": [2], "codec": "raw", "layout": 0}
    fields |= {"offset": 0, "length": 8, "crc32": zlib.crc32(bytes(8))}
    return list((fields | changes).values())


def test_the_hand_signed_file_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(signed_table(row(), payload=bytes(8)))
    assert read(path)[0]["a"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [2**61]},
        {"shape": [2**70], "length": 2**72},
        {"shape": [2**40] * 5, "length": 0},
        {"shape": [1] * 100_000, "length": 4},
        {"shape": [-2], "length": -8},
        {"shape": [-1, -2]},
        {"shape": [2.0]},
        {"shape": [True, 2]},
        {"shape": "2"},
        {"shape": 2},
        {"length": 4},
        {"length": 8.0},
        {"length": 2**80},
        {"offset": 1},
        {"offset": -8},
        {"offset": False},
        {"offset": 2**64},
        {"crc32": None},
        {"crc32": 1},
        {"dtype": "complex64", "shape": [1]},
        {"dtype": "object"},
        {"dtype": ["float32"]},
        {"codec": "lz4"},
        {"codec": {}},
        {"layout": 1},
        {"layout": False},
        {"name": 3},
        {"name": ["a"]},
        {"name": None},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_hostile_rows_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert_refused(tmp_path / "x", signed_table(row(**changes), payload=bytes(8)))


def test_an_empty_tensor_with_impossible_strides_is_refused(tmp_path: Path) -> None:
    empty = row(shape=[0, 2**40, 2**40], length=0, crc32=0)
    assert "shape" in assert_refused(tmp_path / "x", signed_table(empty))


def test_an_unknown_codec_is_named(tmp_path: Path) -> None:
    message = assert_refused(tmp_path / "x", signed_table(row(codec="hx"), payload=bytes(8)))
    assert "tensor 'a'" in message
    assert "'hx'" in message


def test_tables_that_do_not_tile_the_payload_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    overlapping = signed_table(row(), row(name="b"), payload=bytes(8))
    hole = signed_table(row(), row(name="b", offset=12), payload=bytes(20))
    twice = signed_table(row(), row(offset=8), payload=bytes(16))
    for content in (overlapping, hole, twice, signed_table(payload=b"x")):
        assert_refused(path, content)
    assert "length" in assert_refused(path, signed_table(row(), payload=bytes(9)))
    bad_bool = row(dtype="bool", shape=[2], length=2, crc32=zlib.crc32(b"\x00\x02"))
    assert "bool" in assert_refused(path, signed_table(bad_bool, payload=b"\x00\x02"))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"v":2,"meta":{},"t":{}}',
        b'{"v":2,"meta":[],"t":[]}',
        b'{"v":2,"meta":{},"t":[[]]}',
        b'{"v":2,"meta":{},"t":[7]}',
        b'{"v":2,"meta":{},"t":[],"more":1}',
        b'{"v":1,"meta":{},"t":[]}',
        b'{"v":2,"v":2,"meta":{},"t":[]}',
        b'{"v":2,"meta":{"a":NaN},"t":[]}',
        b'{"v":2,"meta":{"a":-Infinity},"t":[]}',
        b'{"v":2,"meta":{"a":' + b"9" * 5000 + b'},"t":[]}',
        b'{"v":2,"meta":{},"t":' + b"[" * 1_000_000,
        b'{"v":2,"meta":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b',"t":[]}',
        '{"v":2,"meta":{},"t":[]}'.encode("utf-16"),
        b'\xef\xbb\xbf{"v":2,"meta":{},"t":[]}',
    ],
    ids=lambda header: repr(header[:30]),
)
def test_hostile_headers_are_refused(tmp_path: Path, header: bytes) -> None:
    assert "header" in assert_refused(tmp_path / "x", sign(header))


def test_lengths_that_promise_too_much_are_refused(tmp_path: Path) -> None:
    for header_len, payload_len in ((2**63, 0), (0, 2**64 - 1), (2**64 - 1, 2**64 - 1), (10, 10)):
        prefix = container.MAGIC + struct.pack("<QQ", header_len, payload_len)
        assert "length" in assert_refused(tmp_path / "x", prefix + bytes(32))


def test_sparse_giants_are_refused_without_memory(tmp_path: Path) -> None:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = tmp_path / "x"
    path.write_bytes(container.MAGIC + struct.pack("<QQ", 2**33 - 56, 0))
    os.truncate(path, 2**33)  # 8 GiB of nothing, all of it "header"
    with pytest.raises(CorruptFile, match="header"):
        read(path)
    with pytest.raises(CorruptFile, match="length"):
        read(path, max_bytes=2**20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 20_000


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(CorruptFile, match="regular"):
            read(path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent")


def test_a_pickle_is_not_even_opened_as_one(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "x")
    sentence = assert_refused(tmp_path / "x", (tmp_path / "x").read_bytes())
    assert sentence.startswith(f"{tmp_path / 'x'} is not a checkpoint of navrl")
