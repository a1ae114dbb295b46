"""Compressed blocks made by an adversary, with correct checksums: only CorruptFile, and little memory."""

import resource
from pathlib import Path

import lz4.block
import pytest
import torch

from navrl.storage import container
from navrl.storage.container import CorruptFile, read
from tests.storage.test_hostile import assert_refused, row, signed_table, stored

MIB = 1 << 20


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def lz4_of(raw: bytes) -> bytes:
    return lz4.block.compress(raw, store_size=False)


def one_block(block: bytes, numbers: int) -> bytes:
    """A file with one tensor of float32 whose only block is this."""
    fields = {"shape": [numbers], "codec": "lz4", "block_bytes": 16 * MIB}
    return signed_table(row(**fields, stored=stored(block)), payload=block, decoded=4 * numbers)


def test_honest_blocks_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(one_block(lz4_of(bytes(4000)), 1000))
    assert torch.equal(read(path)[0]["a"], torch.zeros(1000))


@pytest.mark.parametrize("raw_bytes", [0, 4, 3996, 4004, 100_000])
def test_an_lz4_block_of_another_size_is_refused(tmp_path: Path, raw_bytes: int) -> None:
    block = lz4_of(bytes(raw_bytes)).ljust(20, b"\0")
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
    path, blocks = tmp_path / "x", [lz4_of(bytes(16 * MIB))] * 64  # 4 MiB that would become 1 GiB
    fields = {"shape": [256 * MIB], "codec": "lz4", "block_bytes": 16 * MIB}
    bomb = row(**fields, stored=stored(*blocks))
    path.write_bytes(signed_table(bomb, payload=b"".join(blocks), decoded=1024 * MIB))
    assert path.stat().st_size < 5 * MIB
    before = peak_kib()
    with pytest.raises(CorruptFile, match="1,073,741,824 bytes of tensors, at most 104,857,600"):
        read(path, max_bytes=100 * MIB)
    assert peak_kib() - before < 20_000


def test_blocks_cannot_overlap_or_be_exchanged(tmp_path: Path) -> None:
    """Where a block lies is not written down: it follows from the lengths of those before it."""
    first, second = lz4_of(bytes(4000)), lz4_of(b"\1" * 4000)
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
    block = lz4_of(bytes(4000))
    fields = {"shape": [10, 10, 10], "codec": "lz4", "axis": 1, "stored": stored(block)}
    good = signed_table(row(**fields, block_bytes=4000), payload=block, decoded=4000)
    (tmp_path / "x").write_bytes(good)
    assert read(tmp_path / "x")[0]["a"].shape == (10, 10, 10)
    cut = signed_table(row(**fields, block_bytes=4004), payload=block, decoded=4000)
    assert "would cut rows of 400 bytes" in assert_refused(tmp_path / "x", cut)


def test_small_files_with_many_tensors_take_no_time(tmp_path: Path) -> None:
    rows = [row(name=str(number), shape=[0], stored=[]) for number in range(8_000)]
    (tmp_path / "x").write_bytes(signed_table(*rows, decoded=0))
    assert len(read(tmp_path / "x")[0]) == 8_000
    assert container.read_header(tmp_path / "x").sizes.decoded == 0
