"""Maps made by an adversary: one sentence, at most a second, and 100 MB above the size of the file."""

import io
import itertools
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from navrl.envs.navigation.maps.user_map import Scale, UserMap
from tests.envs.navigation.maps.map_files import chunk, pcd, png
from tests.hostile.measured import measured

pytestmark = pytest.mark.hostile
MIB = 1 << 20
SCALE = {
    "resolution_m": 0.1,
    "height_step_m": 0.1,
    "height_scale_m": 0.02,
    "origin_m": (-20.0, -20.0, 0.0),
    "ground_m": 0.1,
}


def refused(path: Path, max_boxes: object = 4000, **scale: object) -> str:
    """The one sentence with which the map is refused, fast and without much memory."""
    honest_mb = path.stat().st_size / MIB if path.is_file() else 0.0
    world = UserMap(path=str(path), scale=Scale(**SCALE | scale), max_boxes=max_boxes)
    error, seconds, peak_mb = measured(world.checked)
    assert isinstance(error, ValueError), repr(error)
    sentence = str(error)
    assert "\n" not in sentence
    assert len(sentence) < 700 + len(str(path))
    assert seconds < 1.0
    assert peak_mb < 100.0 + honest_mb
    return sentence


# ---- what is no file ---------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["npy", "pcd", "png"])
def test_pipes_devices_and_folders_are_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"map.{suffix}"
    os.mkfifo(path)
    assert "a pipe or a device" in refused(path)
    for target in ("/dev/zero", "/dev/urandom", "/dev/full", "/dev/tty", "/proc/self/fd/0"):
        path.unlink()
        path.symlink_to(target)
        refused(path)
    for target in ("/", str(path), str(tmp_path / "absent")):
        path.unlink()
        path.symlink_to(target)
        refused(path)


def test_a_link_to_a_map_is_a_map(tmp_path: Path) -> None:
    np.save(tmp_path / "real.npy", np.full((2, 2), 200))
    (tmp_path / "map.npy").symlink_to("real.npy")
    UserMap(path=str(tmp_path / "map.npy"), scale=Scale(**SCALE), max_boxes=9).checked()


@pytest.mark.parametrize("suffix", ["npy", "pcd", "png"])
def test_sparse_giants_are_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"map.{suffix}"
    for size in (65 * MIB, 1 << 40):
        path.write_bytes(b"\x89PNG\r\n\x1a\n")
        os.truncate(path, size)
        assert "expected at most 67,108,864" in refused(path)
    os.truncate(path, 64 * MIB)
    refused(path)
    os.truncate(path, 0)
    refused(path)


# ---- scales ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resolution_m", "height_step_m"])
@pytest.mark.parametrize("value", [1e-300, 5e-324, 1e300, 1e-9, -0.1, 0, True, "0.1", None, np.nan])
def test_absurd_steps_are_refused(tmp_path: Path, name: str, value: object) -> None:
    np.save(tmp_path / "map.npy", np.full((2, 2), 200))
    assert f"world.map.scale.{name} = " in refused(tmp_path / "map.npy", **{name: value})


@pytest.mark.parametrize(
    "scale",
    [
        *({"height_scale_m": value} for value in (1e-300, 1e300, np.inf, "1", 10**400)),
        *({"ground_m": value} for value in (1e300, -1.0, np.nan, 10**400)),
        *({"origin_m": (value, 0.0, 0.0)} for value in (1e300, -1e308, np.nan, "0", None, 10**400)),
        *({"origin_m": value} for value in ((), (0.0,) * 4, 3, None, "abc", {"x": 1})),
    ],
    ids=lambda scale: str(scale)[:40],
)
def test_other_absurd_scales_are_refused(tmp_path: Path, scale: dict[str, object]) -> None:
    np.save(tmp_path / "map.npy", np.array([[1.0, 2.0]]))
    refused(tmp_path / "map.npy", **scale)


@pytest.mark.parametrize("max_boxes", [0, -1, 1.5, True, None, "9"])
def test_an_absurd_number_of_boxes_is_refused(tmp_path: Path, max_boxes: object) -> None:
    np.save(tmp_path / "map.npy", np.full((2, 2), 200))
    assert "world.map.max_boxes = " in refused(tmp_path / "map.npy", max_boxes)


# ---- .npy --------------------------------------------------------------------------------------


def npy(header: str, body: bytes = b"", version: int = 1) -> bytes:
    size = struct.pack("<H" if version == 1 else "<I", len(header) + 1)
    return b"\x93NUMPY" + bytes([version, 0]) + size + header.encode() + b"\n" + body


def described(shape: object, descr: str = "'<f8'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"


def bomb_npz() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("arr_0.npy", npy(described((1 << 14, 1 << 10)), bytes(128 * MIB)))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "make",
    [
        *(
            lambda shape=shape: npy(described(shape))
            for shape in (
                "(1 << 40,)",
                f"({1 << 40}, 3)",
                f"({1 << 33}, 3)",
                f"({2**62}, 4)",
                f"({2**63}, {2**63})",
                f"({10**400}, 3)",
                "(-1, 3)",
                f"(0, {2**62})",
                "(1.5, 3)",
                "'ab'",
            )
        ),
        *(
            lambda descr=descr: npy(described((4, 3), descr), bytes(96))
            for descr in (
                "'|O'",
                "'|V0'",
                "'<U9999999'",
                "('<f8', (1000000, 1000000))",
                "[('a', '<f8', (99999, 99999))]",
                "'<M8[s]'",
                "'<c16'",
                "'nonsense'",
            )
        ),
        lambda: npy(described((1 << 60,), "'|V0'")),
        lambda: npy("(" * 5000 + ")" * 5000),
        lambda: npy("-" * 9000 + "1"),
        lambda: npy(described((4, 3)) + " " * 9_999_999, version=2),
        lambda: npy("9" * 9000),
        lambda: npy(described((1 << 21, 3), "'|u1'"), bytes(3 << 21)),
        lambda: npy(described((1 << 19, 3)), np.full((1 << 19, 3), np.nan).tobytes()),
        lambda: npy(described((1 << 19, 3)), np.full((1 << 19, 3), 1e300).tobytes()),
        bomb_npz,
    ],
)
def test_hostile_arrays_are_refused(tmp_path: Path, make: Callable[[], bytes]) -> None:
    (tmp_path / "map.npy").write_bytes(make())
    refused(tmp_path / "map.npy")


@pytest.mark.parametrize("kind", ["noise", "slopes", "points"])
def test_honest_files_of_too_many_boxes_are_refused_soon(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(0)
    array = {
        "noise": lambda: random.integers(0, 255, (724, 724), dtype=np.uint8),
        "slopes": lambda: np.add.outer(np.arange(724), np.arange(724)).astype(np.uint16) * 10,
        "points": lambda: random.uniform(1.0, 99.0, (1 << 19, 3)).astype(np.float32),
    }[kind]()
    np.save(tmp_path / "map.npy", array)
    assert "boxes, and max_boxes=4000 are allowed" in refused(tmp_path / "map.npy")


# ---- .pcd --------------------------------------------------------------------------------------

CLOUD = np.ones((2, 3))


@pytest.mark.parametrize(
    "make",
    [
        *(
            lambda number=number, kind=kind: pcd(CLOUD, WIDTH=number, POINTS=number, encoding=kind)
            for number, kind in itertools.product(
                ("9" * 400, "9" * 5000, "9" * 18, "1000000", "-5", "1e9", "0x9", "²"),
                ("ascii", "binary"),
            )
        ),
        *(
            lambda count=count: pcd(CLOUD, COUNT=f"1 1 1 {count}", FIELDS="x y z a", TYPE="F F F F")
            for count in ("9" * 400, "9" * 17, "0", "-1")
        ),
        lambda: pcd(
            CLOUD,
            FIELDS="x y z a",
            TYPE="F F F U",
            SIZE="4 4 4 8",
            COUNT="1 1 1 999999999999",
            encoding="binary",
        ),
        lambda: b"\n" * (60 * MIB),
        lambda: b"# comment\n" * (6 * MIB),
        lambda: b"x" * (60 * MIB),
        lambda: pcd(CLOUD, FIELDS=" ".join(f"field{i}" for i in range(1500))),
        lambda: pcd(CLOUD, FIELDS=" ".join(f"field{i}" for i in range(99_999))),
        lambda: pcd(CLOUD, VIEWPOINT="0 " * 9_999_999),
        lambda: pcd(CLOUD) + b"1 " * (30 * MIB),
        lambda: pcd(CLOUD[:0], POINTS="2", WIDTH="2") + b"9" * (60 * MIB) + b" 1" * 5,
        lambda: pcd(CLOUD[:0], POINTS="2", WIDTH="2") + b"nan inf -inf 1 2 3",
        lambda: pcd(CLOUD[:0], POINTS="2", WIDTH="2") + b"1e999 1e-999 1 2 3 4",
        lambda: pcd(CLOUD[:0], POINTS="2", WIDTH="2") + b"1 2 3 4 5 \x00\xff",
        lambda: pcd(CLOUD[:0], POINTS="2", WIDTH="2") + b"1\x002\x003\x004\x005\x006",
        lambda: pcd(np.full((2, 3), np.nan), encoding="binary"),
        lambda: pcd(np.full((2, 3), 1e300), encoding="binary", sizes=["8", "8", "8"]),
        lambda: pcd(CLOUD[:0]),
        lambda: pcd(CLOUD, DATA="binary_compressed"),
    ],
)
def test_hostile_point_clouds_are_refused(tmp_path: Path, make: Callable[[], bytes]) -> None:
    (tmp_path / "map.pcd").write_bytes(make())
    refused(tmp_path / "map.pcd")


# ---- .png --------------------------------------------------------------------------------------


def image(width: int, height: int, *packed: bytes, bits: int = 16) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    data = b"".join(chunk(b"IDAT", part) for part in packed)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


def zeros(size: int) -> bytes:
    stream = zlib.compressobj(9)
    parts = [stream.compress(bytes(min(size - done, MIB))) for done in range(0, size, MIB)]
    return b"".join(parts) + stream.flush()


def large_noise() -> bytes:
    """The largest picture, with the filter that takes longest to undo, and a box in every other pixel."""
    rows = np.random.default_rng(0).integers(0, 255, (724, 1 + 2 * 724), dtype=np.uint8)
    rows[:, 0] = 4
    return image(724, 724, zlib.compress(rows.tobytes(), 1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: image(2**31, 2**31),
        lambda: image(2**32 - 1, 1),
        lambda: image(1, 1 << 20, zeros(3 << 20)),
        lambda: image(0, 5),
        lambda: image(1024, 513, zeros(1 << 21)),
        lambda: image(1024, 512, zeros(256 * MIB)),
        lambda: image(1024, 512, zeros(2049 * 512)),
        lambda: image(64, 64, zeros(256 * MIB)),
        lambda: image(64, 64, b"\x78\x01" + b"\x00\x00\x00\xff\xff" * (12 * MIB)),
        lambda: image(64, 64, *([b""] * 99_999)),
        lambda: image(64, 64, *(bytes([byte]) for byte in zeros(129 * 64) * 99)),
        lambda: image(64, 64, zlib.compress(b"\x09" * (129 * 64))),
        lambda: png(CLOUD) + bytes(60 * MIB),
        lambda: png(CLOUD)[:33] + chunk(b"zTXt", zeros(256 * MIB)) + chunk(b"IEND", b""),
        lambda: png(CLOUD)[:33] + struct.pack(">I", 2**32 - 1) + b"IDAT",
        large_noise,
    ],
)
def test_hostile_pictures_are_refused(tmp_path: Path, make: Callable[[], bytes]) -> None:
    (tmp_path / "map.png").write_bytes(make())
    refused(tmp_path / "map.png")
