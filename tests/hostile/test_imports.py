"""Files of torch.save made by an adversary: one sentence, at most a second, and 100 MB of memory."""

import io
import os
import pickle
import struct
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from navrl.commands.import_navrl import check_published, published, read_published
from tests.hostile.measured import measured
from tests.published import make_agent, published_weights

pytestmark = pytest.mark.hostile
MIB = 1 << 20


@pytest.fixture(scope="module")
def wanted() -> dict[str, torch.Tensor]:
    return published(make_agent())


@pytest.fixture
def refused(tmp_path: Path, wanted: dict[str, torch.Tensor]) -> Callable[..., str]:
    """refused(content) -> the one sentence; refused(path=...) for what is there already."""

    def sentence_of(content: bytes = b"", path: Path | None = None) -> str:
        if path is None:
            path = tmp_path / "x.pt"
            path.write_bytes(content)
        error, seconds, peak_mb = measured(
            lambda: check_published(read_published(path), wanted, str(path))
        )
        assert error is not None
        assert "expected" in str(error) or isinstance(error, OSError)
        assert len(str(error)) < 1500
        assert seconds < 1.0
        assert peak_mb < 100.0
        return str(error)

    return sentence_of


def saved(thing: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def changed(**changes: object) -> bytes:
    return saved(published_weights() | {name.replace("__", "."): x for name, x in changes.items()})


def archive(*entries: tuple[str, bytes], kind: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as written:
        for name, content in entries:
            written.writestr(name, content)
    return buffer.getvalue()


def pickled(content: bytes) -> bytes:
    """A file of torch.save around a pickle."""
    return archive(("a/data.pkl", content), ("a/version", b"3\n"), ("a/byteorder", b"little"))


def test_pipes_devices_folders_and_links_to_them(refused: Callable, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "a pipe or a device" in refused(path=tmp_path / "pipe")
    link = tmp_path / "link"
    for target in ("/dev/zero", "/dev/urandom", "/dev/tty", "pipe", "/", "link", "absent"):
        link.symlink_to(target)
        refused(path=link)
        link.unlink()


def test_files_that_are_too_large(refused: Callable, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    for size in (3 * MIB, 1 << 40):
        path.write_bytes(b"PK\x03\x04")
        os.truncate(path, size)
        assert "expected at most 2,097,152" in refused(path=path)
    refused(b"")
    refused(b"PK\x05\x06" + bytes(2 * MIB - 4))


# ---- tensors that are not what they look like -----------------------------------------------------

GAMMA = "gae__gamma"


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(()).expand(1 << 33),
        lambda: torch.ones(()).expand(1 << 30, 1 << 30),
        lambda: torch.ones(1).expand(1 << 20, 1 << 20, 1),
        lambda: torch.ones(2).as_strided((1 << 40, 2), (0, 1)),
        lambda: torch.ones(()).expand([1] * 5000),
        lambda: torch.ones(1 << 10, 0, 1 << 50),
        lambda: torch.ones((), dtype=torch.complex64),
        lambda: torch.ones((), dtype=torch.float64),
        lambda: torch.ones((), device="meta"),
        lambda: torch.ones(1 << 40, device="meta"),
        lambda: torch.quantize_per_tensor(torch.ones(1), 1.0, 0, torch.qint8),
        lambda: torch.sparse_coo_tensor(torch.zeros(1, 1, dtype=torch.int64), [1.0], (1 << 40,)),
        lambda: torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1 << 40)),
        lambda: torch.sparse_coo_tensor(torch.zeros(0, 1, dtype=torch.int64), [1.0], ()),
        lambda: torch.nn.Parameter(torch.ones(())),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.tensor(float("nan")),
        lambda: torch.tensor(float("inf")),
        lambda: torch.tensor(-float("inf")),
        lambda: torch.ones(1 << 19),
        lambda: torch.Size([1 << 60]),
        lambda: torch.float32,
        lambda: 0.99,
        lambda: None,
        lambda: "0.99",
        lambda: [torch.ones(())],
        lambda: {"gae.gamma": torch.ones(())},
        lambda: bytearray(9),
    ],
)
@pytest.mark.filterwarnings("ignore")  # torch's, about kinds of tensors that will go
def test_hostile_tensors(refused: Callable, make: Callable[[], object]) -> None:
    refused(changed(**{GAMMA: make()}))


@pytest.mark.parametrize(
    "thing",
    [
        [],
        torch.ones(3),
        [torch.ones(3)],
        {},
        {3: torch.ones(1)},
        {("a", "b"): torch.ones(1)},
        {None: torch.ones(1)},
        {"a": 1},
        {"a" * 99_999: torch.ones(1)},
        {f"a\n\x1b[2J{number}": torch.ones(1) for number in range(200)},
        OrderedDict(a=OrderedDict(b=OrderedDict())),
        {"state_dict": OrderedDict(a=torch.ones(1))},
        torch.nn.Linear(2, 2),
        print,
    ],
    ids=lambda thing: str(thing)[:30],
)
def test_hostile_containers(refused: Callable, thing: object) -> None:
    refused(saved(thing))


# ---- pickles --------------------------------------------------------------------------------------


def laughs(levels: int, make: bytes) -> bytes:
    """A container of two times the same container, of two times the same one, and so on."""
    start = {b"\x86": b")", b"l": b"]", b"d": b"}"}[make]
    content = b"\x80\x02" + start + b"q\x00"
    for level in range(levels):
        place = bytes([level])
        if make == b"\x86":
            content += b"h" + place + b"h" + place + b"\x86"
        elif make == b"l":
            content += b"](h" + place + b"h" + place + b"e"
        else:
            content += b"}(X\x01\0\0\0ah" + place + b"X\x01\0\0\0bh" + place + b"u"
        content += b"q" + bytes([level + 1])
    return content


def called(function: str, *numbers: int) -> bytes:
    module, _, name = function.rpartition(".")
    packed = b"".join(b"\x8a\x08" + struct.pack("<q", number) for number in numbers)
    return b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"(" + packed + b"tR."


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02}" + laughs(60, b"\x86")[2:] + b"K\x01s.",  # the key of a dict: its hash
        b"\x80\x02}(" + laughs(60, b"\x86")[2:] + b"K\x01u.",
        laughs(60, b"\x86") + b".",
        laughs(200, b"l") + b".",
        laughs(200, b"d") + b".",
        *(b"\x80\x02" + b"(" * number + b"." for number in (60_000, MIB)),
        *(b"\x80\x02" + b")" * number + b"." for number in (60_000, MIB)),
        *(b"\x80\x02)" + b"\x85" * number + b"." for number in (60_000, MIB)),
        b"\x80\x02]" + b"q\x00h\x00a" * 12_000 + b".",
        b"\x80\x02" + b"}X\x01\0\0\0a" * 7_000 + b"N" + b"s" * 7_000 + b".",
        b"\x80\x02" + b"}X\x01\0\0\0a" * 99_999 + b"N" + b"s" * 99_999 + b".",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"abc.",
        b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
        b"\x80\x02\x8b" + struct.pack("<i", MIB) + b"\x7f" * MIB + b".",
        b"I" + b"9" * MIB + b"\n.",
        b"\x80\x02q\xff.",
        b"\x80\x02r\xff\xff\xff\x7f.",
        b"\x80\x02N" + b"r\xff\xff\xff\x7f.",
        b"\x80\x02N" + b"2" * MIB + b"t.",
        b"\x80\x05\x8c\x02os\x8c\x06system\x93(\x8c\x02idtR.",
        called("builtins.bytearray", 1 << 36),
        called("builtins.bytes", 1 << 36),
        called("builtins.range", 1 << 60),
        called("torch.Size", 1 << 60),
        called("torch.zeros", 1 << 36),
        called("torch.FloatStorage", 1 << 36),
        called("torch.storage.UntypedStorage", 1 << 36),
        called("collections.Counter", 5),
        called("_codecs.encode", 5),
        b"cos\nsystem\n(X\x02\0\0\0idtR.",
        b"\x80\x02ccollections\nOrderedDict\n)R}X\x07\0\0\0__len__K\x01sb.",
        b"",
        b".",
        b"\x80\x02",
        pickle.dumps({"a": 1}, protocol=5),
        pickle.dumps({"a": 1}, protocol=0),
    ],
    ids=lambda content: repr(content[:24]),
)
def test_hostile_pickles(refused: Callable, content: bytes) -> None:
    refused(pickled(content))


# ---- archives -------------------------------------------------------------------------------------


def entries(weights: object = None) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(saved(weights or published_weights()))) as opened:
        return [(entry.filename, opened.read(entry)) for entry in opened.infolist()]


def lying(field: int, width: str, value: int) -> bytes:
    """The published file with another number at this offset of every entry of the directory."""
    content = bytearray(saved(published_weights()))
    place = content.find(b"PK\x01\x02")
    while place >= 0:
        struct.pack_into(width, content, place + field, value)
        place = content.find(b"PK\x01\x02", place + 4)
    return bytes(content)


def another_count() -> bytes:
    """A storage that promises more numbers than its entry holds."""
    wrong = [
        (name, data.replace(b"K\x01tq", b"J\x00\x00\x00\x10tq") if name.endswith(".pkl") else data)
        for name, data in entries()
    ]
    return archive(*wrong)


def two_directories() -> bytes:
    """Two archives in one file: a parser from the front and one from the end find different entries."""
    return saved(published_weights())[:MIB] + saved({"a": torch.ones(1)})


@pytest.mark.parametrize(
    "make",
    [
        lambda: archive(*entries(), kind=zipfile.ZIP_DEFLATED),
        lambda: archive(*entries(), kind=zipfile.ZIP_BZIP2),
        lambda: archive(*entries(), kind=zipfile.ZIP_LZMA),
        lambda: archive(*entries(), ("a/data/x", bytes(128 * MIB)), kind=zipfile.ZIP_DEFLATED),
        lambda: archive(*((f"a/{number}", b"") for number in range(20_000))),
        lambda: archive(*((f"a/{number}", b"") for number in range(257))),
        lambda: archive(*((f"a/{'x' * 60_000}{number}", b"") for number in range(15))),
        lambda: archive(("../../escape", b"x"), ("/etc/passwd", b"x")),
        lambda: archive(("data.pkl", b"x")),
        *(
            lambda field=field, width=width, value=value: lying(field, width, value)
            for field, width, value in (
                (10, "<H", 8),  # method
                (10, "<H", 99),
                (8, "<H", 1),  # encrypted
                (6, "<H", 999),  # version needed
                (24, "<I", 2**32 - 1),  # size
                (24, "<I", 2**31),
                (24, "<I", 0),
                (42, "<I", 2**32 - 1),  # place
                (42, "<I", 0),
                (28, "<H", 2**16 - 1),  # length of the name
                (30, "<H", 2**16 - 1),
                (16, "<I", 0),  # checksum
            )
        ),
        another_count,
        two_directories,
        lambda: saved(published_weights())[:-30],
        lambda: saved(published_weights())[30:],
        lambda: zlib.compress(bytes(MIB)),
        lambda: b"\x1f\x8b" + bytes(999),
        lambda: pickle.dumps(0x1950A86A20F9469CFC6C, 2) + bytes(99),  # the format before archives
    ],
)
def test_hostile_archives(refused: Callable, make: Callable[[], bytes]) -> None:
    refused(make())


def test_the_same_entries_in_an_archive_of_another_program_are_read(tmp_path: Path) -> None:
    weights = published_weights()
    (tmp_path / "x.pt").write_bytes(archive(*entries(weights)))
    found = read_published(tmp_path / "x.pt")
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], x) for name, x in weights.items())
