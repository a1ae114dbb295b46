"""Compressed containers: the same bits come back by every coding, and a second reader agrees."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from navrl.storage import blocks, container
from navrl.storage.blocks import Coding
from navrl.storage.codec import FILTERS, LZ4
from navrl.storage.container import read, write
from navrl.storage.header import ITEM_BYTES, CorruptFile, read_header
from tests.storage import independent_reader
from tests.storage.test_container import assert_same

CODINGS = [Coding(LZ4, name, axis) for name in FILTERS for axis in (None, 1, 2)]


def walks(dtype: torch.dtype, *shape: int) -> Tensor:
    """Values that change slowly along the third dimension and stand still now and then."""
    generator = torch.Generator().manual_seed(7)
    steps = torch.randint(-3, 4, shape, generator=generator) * (
        torch.rand(shape, generator=generator) < 0.05
    )
    return (steps.cumsum(2) % 2 == 0) if dtype == torch.bool else steps.cumsum(2).to(dtype)


def mixture() -> dict[str, Tensor]:
    tensors = {
        str(dtype): walks(dtype, 9, 5, 33, 3)
        for dtype in (getattr(torch, name) for name in ITEM_BYTES)
    }
    noise = torch.randn(400, 21, generator=torch.Generator().manual_seed(1))
    return tensors | {"noise": noise, "none": torch.empty(0, 3, 2), "scalar": torch.tensor(2.5)}


@pytest.mark.parametrize("coding", CODINGS, ids=str)
@pytest.mark.parametrize("block_bytes", [1, 1000, 1 << 20])
def test_every_coding_gives_back_the_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coding: Coding, block_bytes: int
) -> None:
    def forced(source: blocks.Source, *_: Any) -> Coding:
        laid_out = coding.axis is None or source.can_move(coding.axis)
        return coding if laid_out else coding._replace(axis=None)

    monkeypatch.setattr(container, "choose_coding", forced)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", max(block_bytes // 8 * 8, 4096))
    path = tmp_path / "x"
    write(path, mixture(), {"n": 1}, compress=True)
    assert_same(read(path)[0], mixture())
    assert_same(independent_reader.read(path)[0], mixture())
    assert path.stat().st_size < sum(tensor.nbytes for tensor in mixture().values())


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("threads", [1, 2, None])
def test_a_file_is_the_same_whoever_writes_it(
    tmp_path: Path, compress: bool, threads: int | None
) -> None:
    tensors = mixture() | {"large": walks(torch.float32, 32, 20, 64, 40)}
    one = write(tmp_path / "a", tensors, {}, compress=compress, time_axis=2, threads=1)
    many = write(tmp_path / "b", tensors, {}, compress=compress, time_axis=2, threads=threads)
    assert one == many
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert_same(read(tmp_path / "a", threads=threads)[0], tensors)
    assert_same(independent_reader.read(tmp_path / "a")[0], tensors)


def test_what_does_not_become_smaller_is_stored_as_it_is(tmp_path: Path) -> None:
    noise = torch.randint(0, 256, (3 << 20,), generator=torch.Generator().manual_seed(3))
    tensors = {"noise": noise.to(torch.uint8), "ids": noise[: 1 << 17] * 2**55 + noise[-1]}
    write(tmp_path / "x", tensors, {}, compress=True)
    rows = read_header(tmp_path / "x").rows
    assert (rows[0].codec, rows[0].stored_bytes) == ("raw", 3 << 20)
    assert_same(read(tmp_path / "x")[0], tensors)


def test_a_tensor_that_changes_slowly_is_laid_out_by_time(tmp_path: Path) -> None:
    start, speed = torch.randn(2, 64, 1, 20, generator=torch.Generator().manual_seed(4))
    scans = 100 + start + 0.01 * speed * torch.arange(32.0).unsqueeze(-1)  # (N, T, F)
    write(tmp_path / "by_time", {"scan": scans}, {}, compress=True, time_axis=1)
    write(tmp_path / "plain", {"scan": scans}, {}, compress=True)
    assert read_header(tmp_path / "by_time").rows[0].axis == 1
    assert (tmp_path / "by_time").stat().st_size < 0.8 * (tmp_path / "plain").stat().st_size
    assert_same(read(tmp_path / "by_time")[0], {"scan": scans})


def test_named_tensors_are_read_and_the_others_not_even_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path, mixture(), {"n": 1}, compress=True, time_axis=2)
    row = next(row for row in read_header(path).rows if row.name == "torch.int64")
    content = bytearray(path.read_bytes())
    content[read_header(path).payload_start + row.start] ^= 1
    path.write_bytes(content)
    found, meta = read(path, names={"scalar", "noise"})
    assert_same(found, {name: mixture()[name] for name in ("noise", "scalar")})
    assert meta == {"n": 1}
    with pytest.raises(CorruptFile, match=r"tensor 'torch.int64', block 0"):
        read(path, names={"torch.int64"})
    with pytest.raises(ValueError, match=r"has no tensor 'nonsense'; it has 'torch.float64'"):
        read(path, names={"nonsense"})


def test_mapped_tensors_are_the_file_and_private(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path, mixture(), {})
    for _ in range(2):
        found, _ = read(path, mapped=True)
        assert_same(found, mixture())
        for tensor in found.values():
            assert tensor.numel() == 0 or tensor.data_ptr() % 64 == 0
            tensor.zero_()  # if this reached the file, the second round would fail
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptFile, match="sha256"):
        read(path, mapped=True)


def test_a_mapping_survives_that_its_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path, mixture(), {})
    found, _ = read(path, mapped=True)
    write(path, {}, {})
    assert_same(found, mixture())


def test_the_size_in_memory_is_limited_too(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path, {"a": torch.zeros(1 << 18), "b": torch.ones(3)}, {}, compress=True)
    assert path.stat().st_size < 10_000
    with pytest.raises(CorruptFile, match="1,048,588 bytes of tensors, at most 100,000 are read"):
        read(path, max_bytes=100_000)
    assert read(path, max_bytes=100_000, names=["b"])[0]["b"].tolist() == [1, 1, 1]


def test_a_save_that_the_end_of_the_program_overtakes_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From then on Python refuses work for its pools, though other threads still run."""
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)
    large = {"large": torch.arange(2.0**21)}
    write(tmp_path / "x", large, {}, threads=2)
    assert_same(read(tmp_path / "x", threads=2)[0], large)


def test_no_thread_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="threads = 0; expected 1 or more"):
        write(tmp_path / "x", {"a": torch.ones(2)}, {}, threads=0)
