"""Files made by an adversary, with correct checksums: only CorruptFile, and no large allocation."""

import contextlib
import hashlib
import json
import multiprocessing
import os
import resource
import struct
import time
from pathlib import Path
from typing import Any

import lz4.block
import pytest
import torch

from navrl.storage import container
from navrl.storage.container import read
from navrl.storage.header import MAGIC, MAX_HEADER_BYTES, MAX_TENSORS, CorruptFile

pytestmark = pytest.mark.hostile
MIB = 1 << 20


def packed(raw: bytes) -> bytes:
    return lz4.block.compress(raw, store_size=False)


def assert_refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(CorruptFile) as caught:
        read(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def sign(header: bytes, payload: bytes = b"", decoded: int = 0) -> bytes:
    """A file around any header, with correct lengths and sha256, so that the parser is reached."""
    header += b" " * (-len(header) % 64)
    sizes = MAGIC + struct.pack("<QQQ", len(header), len(payload), decoded)
    return sizes + hashlib.sha256(sizes + header).digest() + header + payload


def signed_table(*rows: Any, payload: bytes = b"", decoded: int = 8) -> bytes:
    return sign(json.dumps({"v": 3, "meta": {}, "t": rows}).encode(), payload, decoded)


def stored(*blocks: bytes) -> list[list[Any]]:
    """Return the field of a row about its blocks."""
    return [[len(block), hashlib.sha256(block).hexdigest()] for block in blocks]


def row(**changes: Any) -> list[Any]:
    fields = {"name": "a", "dtype": "float32", "shape": [2], "codec": "raw", "filter": "none"}
    fields |= {"axis": None, "block_bytes": 1 << 20, "stored": stored(bytes(8))}
    assert changes.keys() <= fields.keys()
    return list((fields | changes).values())


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [2**61]},
        {"shape": [2**40] * 5, "stored": []},
        {"shape": [1] * 100_000},
        {"shape": [-2], "stored": []},
        {"shape": [2.0]},
        {"shape": [True, 2]},
        {"shape": "2"},
        {"block_bytes": 0},
        {"block_bytes": 4},
        {"block_bytes": 2.0**20},
        {"block_bytes": 2**40},
        {"block_bytes": 1023},
        {"stored": []},
        {"stored": 8},
        {"stored": [[8.0, "0" * 64]]},
        {"stored": [[-8, "0" * 64]]},
        {"stored": [[8, "0" * 63]]},
        {"stored": [[8, "0" * 64]]},
        {"stored": stored(bytes(8)) * 2},
        {"stored": stored(bytes(16))},
        {"stored": [[2**64, "0" * 64]]},
        {"dtype": "complex64", "shape": [1]},
        {"codec": "zstd"},
        {"filter": "bytes"},
        {"filter": "delta", "codec": "lz4"},
        {"axis": 0},
        {"axis": True, "codec": "lz4", "shape": [1, 2, 1]},
        {"axis": 0, "codec": "lz4", "shape": [1, 2, 1]},
        {"axis": 2, "codec": "lz4", "shape": [1, 2, 1]},
        {"axis": 1, "codec": "lz4", "shape": [1, 2, 1], "block_bytes": 4},
        {"axis": 1, "codec": "lz4", "shape": [2, 0, 1], "stored": []},
        {"name": 3},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_hostile_rows_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert_refused(tmp_path / "x", signed_table(row(**changes), payload=bytes(8)))


def test_an_empty_tensor_with_impossible_strides_is_refused(tmp_path: Path) -> None:
    empty = row(shape=[0, 2**40, 2**40], stored=[])
    assert "shape" in assert_refused(tmp_path / "x", signed_table(empty, decoded=0))


@pytest.mark.parametrize("codec", ["zstd", "huffman"])
def test_a_codec_of_another_navrl_is_named(tmp_path: Path, codec: str) -> None:
    message = assert_refused(tmp_path / "x", signed_table(row(codec=codec), payload=bytes(8)))
    assert (
        f"holds tensor 'a' in the codec '{codec}', and this navrl reads raw and lz4 only" in message
    )
    assert "damaged" not in message


def test_tables_that_do_not_tile_the_payload_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    both = bytes(8) + bytes(56) + bytes(8)
    path.write_bytes(signed_table(row(), row(name="b"), payload=both, decoded=16))
    assert len(read(path)[0]) == 2
    overlapping = signed_table(row(), row(name="b"), payload=bytes(8), decoded=16)
    unaligned = signed_table(row(), row(name="b"), payload=bytes(16), decoded=16)
    hole = signed_table(row(), row(name="b"), payload=both + bytes(64), decoded=16)
    twice = signed_table(row(), row(), payload=both, decoded=16)
    gap = signed_table(row(), row(name="b"), payload=both.replace(bytes(9), b"x" * 9), decoded=16)
    for content in (overlapping, unaligned, hole, twice, gap, signed_table(payload=b"x")):
        assert_refused(path, content)
    assert "length" in assert_refused(path, signed_table(row(), payload=bytes(9)))


def test_a_decoded_size_that_lies_is_refused(tmp_path: Path) -> None:
    for decoded in (0, 7, 9, 2**63):
        content = signed_table(row(), payload=bytes(8), decoded=decoded)
        assert "decoded size" in assert_refused(tmp_path / "x", content)


@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_a_bool_of_two_is_refused(tmp_path: Path, codec: str) -> None:
    block = b"\x00\x02" * 64 if codec == "raw" else packed(b"\x00\x02" * 64)
    bad = row(dtype="bool", shape=[128], codec=codec, stored=stored(block))
    assert "bool" in assert_refused(tmp_path / "x", signed_table(bad, payload=block, decoded=128))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        b'{"v":3,"meta":{},"t":{}}',
        b'{"v":3,"meta":[],"t":[]}',
        b'{"v":3,"meta":{},"t":[[]]}',
        b'{"v":3,"meta":{},"t":[],"more":1}',
        b'{"v":3,"v":3,"meta":{},"t":[]}',
        b'{"v":3,"meta":{"a":NaN},"t":[]}',
        b'{"v":3,"meta":{"a":' + b"9" * 5000 + b'},"t":[]}',
        b'{"v":3,"meta":{},"t":' + b"[" * 1_000_000,
        b'{"v":3,"meta":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b',"t":[]}',
        '{"v":3,"meta":{},"t":[]}'.encode("utf-16"),
        b'\xef\xbb\xbf{"v":3,"meta":{},"t":[]}',
    ],
    ids=lambda header: repr(header[:30]),
)
def test_hostile_headers_are_refused(tmp_path: Path, header: bytes) -> None:
    assert "header" in assert_refused(tmp_path / "x", sign(header))


def test_sizes_that_promise_too_much_are_refused(tmp_path: Path) -> None:
    for header_len, payload_len in ((2**63, 0), (0, 2**64 - 1), (2**64 - 1, 2**64 - 1), (10, 10)):
        prefix = MAGIC + struct.pack("<QQQ", header_len, payload_len, 0)
        assert "length" in assert_refused(tmp_path / "x", prefix + bytes(32))


def test_sparse_giants_are_refused_without_memory(tmp_path: Path) -> None:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = tmp_path / "x"
    path.write_bytes(MAGIC + struct.pack("<QQQ", 2**33 - 64, 0, 0))
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


@pytest.mark.parametrize(
    "path", ["/dev/zero", "/dev/tty", "/proc/self/mem", "/proc/kmsg", "/proc/kcore"]
)
def test_endless_files_are_refused_at_once(path: str) -> None:
    began, before = time.monotonic(), peak_kib()
    with pytest.raises((CorruptFile, OSError)):
        read(Path(path))
    assert time.monotonic() - began < 1.0
    assert peak_kib() - before < 20_000


@pytest.mark.parametrize(
    "item", ["[]", "{}", '{"":0}', '"é1"', "1e99", "12345", '["a"]', '[{"a":1}]', "null"]
)
def test_a_header_needs_little_more_memory_than_its_text(tmp_path: Path, item: str) -> None:
    """In a process of its own, which begins with the imports only."""
    count = (MAX_HEADER_BYTES - 200) // (len(item.encode()) + 1)
    path = tmp_path / "x"
    path.write_bytes(
        sign(b'{"v":3,"t":[],"meta":{"a":[' + ",".join([item] * count).encode() + b"]}}")
    )
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(growth_kib, (path,)) < 100_000


def growth_kib(path: Path) -> int:
    before = peak_kib()
    with contextlib.suppress(CorruptFile):
        read(path)
    return peak_kib() - before


def test_a_pickle_is_not_even_opened_as_one(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "x")
    sentence = assert_refused(tmp_path / "x", (tmp_path / "x").read_bytes())
    assert sentence.startswith(f"{tmp_path / 'x'} is not a file of navrl")


def test_a_table_of_very_many_tiny_tensors_is_refused_at_once(tmp_path: Path) -> None:
    rows = [row(name=f"{i:x}", shape=[0], block_bytes=4, stored=[]) for i in range(30_000)]
    assert len(json.dumps(rows)) < MAX_HEADER_BYTES
    assert "30,000 tensors, at most 8,192" in assert_refused(
        tmp_path / "x", signed_table(*rows, decoded=0)
    )
    most = {f"{i:x}": torch.empty(0) for i in range(MAX_TENSORS)}
    container.write(tmp_path / "most", most, {})
    assert len(read(tmp_path / "most")[0]) == len(most)
    with pytest.raises(ValueError, match=r"8,193 tensors, at most 8,192 fit"):
        container.write(tmp_path / "more", most | {"one more": torch.empty(0)}, {})


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def one_block(block: bytes, numbers: int) -> bytes:
    """A file with one tensor of float32 whose only block is this."""
    fields = {"shape": [numbers], "codec": "lz4", "block_bytes": 16 * MIB}
    return signed_table(row(**fields, stored=stored(block)), payload=block, decoded=4 * numbers)


@pytest.mark.parametrize("raw_bytes", [0, 4, 3996, 4004, 100_000])
def test_an_lz4_block_of_another_size_is_refused(tmp_path: Path, raw_bytes: int) -> None:
    block = packed(bytes(raw_bytes)).ljust(20, b"\0")
    assert "tensor 'a', block 0" in assert_refused(tmp_path / "x", one_block(block, 1000))


def test_what_is_no_lz4_is_refused(tmp_path: Path) -> None:
    far = b"\x1f\x00\xff\xff" + b"\xff" * 30  # a match that begins before the block
    for block in (far, b"\xff" * 40, bytes(40), b"\xf0" + bytes(40)):
        assert "lz4" in assert_refused(tmp_path / "x", one_block(block, 1000)) or len(block) == 40


@pytest.mark.parametrize("stored_bytes", [1, 8, 15])
def test_a_ratio_that_no_codec_has_is_refused_before_memory_is_taken(
    tmp_path: Path, stored_bytes: int
) -> None:
    message = assert_refused(tmp_path / "x", one_block(bytes(stored_bytes), 1000))
    assert "expected 16 to 4,000" in message


def test_an_lz4_bomb_is_refused_by_its_size_in_memory(tmp_path: Path) -> None:
    path, blocks = (tmp_path / "x", [packed(bytes(16 * MIB))] * 64)  # 4 MiB that would become 1 GiB
    fields = {"shape": [256 * MIB], "codec": "lz4", "block_bytes": 16 * MIB}
    bomb = row(**fields, stored=stored(*blocks))
    path.write_bytes(signed_table(bomb, payload=b"".join(blocks), decoded=1024 * MIB))
    assert path.stat().st_size < 5 * MIB
    before = peak_kib()
    with pytest.raises(CorruptFile, match="1,073,741,824 bytes of tensors, at most 104,857,600"):
        read(path, max_bytes=100 * MIB)
    assert peak_kib() - before < 20_000


def test_blocks_cannot_overlap_or_be_exchanged(tmp_path: Path) -> None:
    """Positions are not written down: they follow from the lengths of the blocks before."""
    first, second = packed(bytes(4000)), packed(b"\1" * 4000)
    fields = {"shape": [2000], "codec": "lz4", "block_bytes": 4000}
    table = row(**fields, stored=stored(first, second))
    (tmp_path / "x").write_bytes(signed_table(table, payload=first + second, decoded=8000))
    assert read(tmp_path / "x")[0]["a"][1000:].view(torch.uint8).tolist() == [1] * 4000
    exchanged = signed_table(table, payload=second + first, decoded=8000)
    assert "tensor 'a', block 0" in assert_refused(tmp_path / "x", exchanged)
    twice = row(**fields, stored=stored(first, first))
    assert "length" in assert_refused(
        tmp_path / "x", signed_table(twice, payload=first, decoded=8000)
    )


def test_a_tensor_that_is_laid_out_anew_must_have_whole_rows(tmp_path: Path) -> None:
    block = packed(bytes(4000))
    fields = {"shape": [10, 10, 10], "codec": "lz4", "axis": 1, "stored": stored(block)}
    good = signed_table(row(**fields, block_bytes=4000), payload=block, decoded=4000)
    (tmp_path / "x").write_bytes(good)
    assert read(tmp_path / "x")[0]["a"].shape == (10, 10, 10)
    cut = signed_table(row(**fields, block_bytes=4004), payload=block, decoded=4000)
    assert "would cut rows of 400 bytes" in assert_refused(tmp_path / "x", cut)
