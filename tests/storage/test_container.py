"""The container file: everything comes back bit for bit, and every damaged bit is noticed."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from navrl.storage import container
from navrl.storage.compare import differences
from navrl.storage.container import read, write
from navrl.storage.header import ITEM_BYTES, CorruptFile, read_header


def small_tensors() -> dict[str, Tensor]:
    return {
        "agent/weight": torch.arange(6, dtype=torch.float32).view(2, 3),
        "agent/bias": torch.tensor([1.5, -2.0, 0.25]),
        "mask": torch.tensor([True, False, True]),
        "step": torch.tensor(7, dtype=torch.int64),
        "none": torch.empty(0, 4),
        "optimiser/0/exp_avg": torch.arange(25, dtype=torch.float64),
    }


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.ckpt"
    write(path, small_tensors(), {"frames": 64})
    return path


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert list(found) == list(expected)
    assert differences(found, expected) == []


def assert_refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(CorruptFile) as caught:
        read(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [getattr(torch, name) for name in ITEM_BYTES], ids=str)
def test_every_bit_pattern_of_every_dtype_survives(tmp_path: Path, dtype: torch.dtype) -> None:
    # 4096 random bytes hold NaN payloads, infinities, denormals and negative zeros.
    raw = torch.randint(0, 256, (4096,), generator=torch.Generator().manual_seed(3))
    raw = raw.to(torch.uint8)
    values = raw > 127 if dtype == torch.bool else raw.view(dtype)
    write(tmp_path / "x", {"values": values}, {})
    assert_same(read(tmp_path / "x")[0], {"values": values})


def test_awkward_tensors_survive(tmp_path: Path) -> None:
    base = torch.arange(24, dtype=torch.float32).view(2, 3, 4)
    tensors = {
        "transposed": base.transpose(0, 2),
        "strided": base[:, ::2, 1:3],
        "expanded": torch.tensor([1.0, 2.0]).expand(5, 2),
        "scalar": torch.tensor(-0.0),
        "empty": torch.empty(3, 0, 2, dtype=torch.int16),
        "no_numbers_yet": torch.empty(0),
        "conjugate": torch.view_as_real(torch.tensor([1 + 2j]).conj().resolve_conj()),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "a name with / and \n and \ud800": torch.ones(1),
    }
    write(tmp_path / "x", tensors, {})
    assert_same(read(tmp_path / "x")[0], {name: t.detach() for name, t in tensors.items()})


def test_read_tensors_are_writable_owned_and_aligned(small: Path) -> None:
    found, meta = read(small)
    assert meta == {"frames": 64}
    for tensor in found.values():
        tensor.fill_(1)
        assert tensor.is_leaf
        assert tensor.data_ptr() % 64 == 0
    assert_same(read(small)[0], small_tensors())


def test_an_unclean_bool_is_written_as_one(tmp_path: Path) -> None:
    # A view of other numbers may hold them; copy_ makes them 1, without which read would refuse.
    unclean = torch.tensor([0, 2, 255] * 1000, dtype=torch.uint8).view(torch.bool)
    write(tmp_path / "x", {"mask": unclean, "strided": unclean[::3]}, {})
    assert read(tmp_path / "x")[0]["mask"].tolist() == [False, True, True] * 1000


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(2, dtype=torch.complex64),
        torch.eye(2).to_sparse(),
        torch.empty(2, device="meta"),
        torch.zeros([1] * 33),
    ],
    ids=["complex", "sparse", "meta", "dimensions"],
)
def test_what_cannot_be_stored_is_named(tmp_path: Path, tensor: Tensor) -> None:
    with pytest.raises(TypeError, match="tensor 'agent/x' cannot be stored"):
        write(tmp_path / "x", {"agent/x": tensor}, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("meta", [{"score": float("nan")}, {"long": "x" * (8 << 20)}])
def test_unwritable_metadata_leaves_no_file(tmp_path: Path, meta: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"JSON|header"):
        write(tmp_path / "x", {}, meta)
    assert list(tmp_path.iterdir()) == []


def test_write_returns_the_identity_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    digest = write(path, small_tensors(), {})
    content = path.read_bytes()
    header_len = int.from_bytes(content[8:16], "little")
    assert digest == hashlib.sha256(content[:32] + content[64 : 64 + header_len]).hexdigest()
    assert digest == container.read_digest(path)
    assert digest == read_header(path).sha256
    changed = small_tensors() | {"step": torch.tensor(8)}
    assert write(path, changed, {}) != digest


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_every_flipped_bit_is_detected(small: Path, step: int) -> None:
    """Nine is one bit of every byte, another one in each."""
    intact = small.read_bytes()
    assert 1200 < len(intact) < 1400
    for position in range(0, 8 * len(intact), step):
        changed = bytearray(intact)
        changed[position // 8] ^= 1 << position % 8
        assert_refused(small, changed)


def test_every_truncation_and_appended_bytes_are_detected(small: Path) -> None:
    intact = small.read_bytes()
    for length in range(len(intact)):
        assert_refused(small, intact[:length])
    for tail in (b"\0", b"\n", intact):
        assert "length" in assert_refused(small, intact + tail)


def test_damage_is_named(small: Path) -> None:
    intact = small.read_bytes()
    header = read_header(small)
    for row in header.rows:
        if row.raw_bytes:
            flipped = bytearray(intact)
            flipped[header.payload_start + row.end - 1] ^= 1
            message = assert_refused(small, flipped)
            assert f"tensor {row.name!r}, block 0" in message
    flipped = bytearray(intact)
    flipped[40] ^= 1
    assert "header: its checksum" in assert_refused(small, flipped)
    assert "header" in assert_refused(small, intact.replace(b'"v":3', b'"v":4'))
    assert "frames" not in assert_refused(small, intact.replace(b'"frames":64', b'"frames":65'))


def test_a_file_of_an_earlier_version_says_so(small: Path) -> None:
    content = b"NVRL\x02" + small.read_bytes()[5:]
    assert "is of format version 2, and this navrl reads version 3" in assert_refused(
        small, content
    )
