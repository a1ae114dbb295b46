"""Feed the reader damaged and hostile files, with correct checksums so that they reach the decoders.

    .venv/bin/python scripts/fuzz_container.py [--inputs 1000000] [--processes 2] [--seed 0]

Every input must be read or refused as CorruptFile, within a second and with little memory. The exit code is 1
if one was not; its seed is printed, and `--seed S --inputs 1 --processes 1` repeats it.
"""

import copy
import hashlib
import json
import math
import os
import random
import resource
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict

from navrl.storage import blocks, container
from navrl.storage.blocks import Coding
from navrl.storage.codec import CODECS, FILTERS
from navrl.storage.header import ITEM_BYTES, CorruptFile
from navrl.storage.rollouts import RolloutStorage, load_rollout
from timing import parser

MAX_BYTES = 4 << 20  # that the reader accepts
MAX_GROWTH_BYTES = 64 << 20  # of the process while it reads
MAX_SECONDS = 1.0
WORDS = [*ITEM_BYTES, *CODECS, *FILTERS, "", "zstd", "\ud800", "0" * 64]
NUMBERS = [0, 1, 2, 3, 5, 8, 63, 64, 4096, 2**20, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64, 10**30]
OTHERS = [None, True, False, [], {}, [[]], -1, 1.5, 1e300, [0] * 40]


class Sample(NamedTuple):
    """An intact file, taken apart."""

    header: dict[str, Any]
    payload: bytes
    read: Callable[[Path], object]


def main() -> int:
    """Print the figures; return 1 if any input was neither read nor refused as it should."""
    options_parser = parser(__doc__)
    options_parser.add_argument("--inputs", type=int, default=1_000_000)
    options_parser.add_argument("--processes", type=int, default=2)
    options_parser.add_argument("--seed", type=int, default=0)
    options = options_parser.parse_args()
    share = -(-options.inputs // options.processes)
    starts = [options.seed + share * i for i in range(options.processes)]
    began = time.monotonic()
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        parts = list(pool.map(fuzz, starts, [share] * options.processes))
    minutes = (time.monotonic() - began) / 60
    counts = sum((counts for counts, *_ in parts), Counter())
    failures = [line for *_, lines in parts for line in lines]
    print(f"{counts.total():,} inputs in {minutes:.1f} minutes on {options.processes} processes")
    for outcome, count in counts.most_common():
        print(f"  {outcome:<28}{count:>10,}")
    print(f"slowest {1e3 * max(part[1] for part in parts):.0f} ms")
    print(f"memory grew by at most {max(part[2] for part in parts) / 1e6:.0f} MB")
    print("\n".join(failures) or "no failures")
    return bool(failures)


def fuzz(first: int, count: int) -> tuple[Counter[str], float, int, list[str]]:
    """Return outcomes, the longest time, the growth of memory, and the failures."""
    torch.set_num_threads(1)
    samples = make_samples()
    descriptor = os.memfd_create("fuzz")
    path = Path(f"/proc/self/fd/{descriptor}")
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    slowest = 0.0
    for sample in samples:
        store(descriptor, build(sample.header, sample.payload))
        sample.read(path)  # imports everything that is imported late
    before = limit_memory()
    for seed in range(first, first + count):
        dice = random.Random(seed)
        sample = dice.choice(samples)
        store(descriptor, mutated(sample, dice))
        began = time.perf_counter()
        try:
            sample.read(path)
            outcome = "read"
        except CorruptFile as error:
            outcome = f"refused: {error.part.partition(' ')[0]}"
        except BaseException as error:  # noqa: BLE001 (any other exception is a failure)
            outcome = f"FAILED: {type(error).__name__}"
            failures.append(f"seed {seed}: {type(error).__name__}: {error!s:.200}")
        seconds = time.perf_counter() - began
        if seconds > MAX_SECONDS:
            failures.append(f"seed {seed}: took {seconds:.1f} s")
        slowest = max(slowest, seconds)
        outcomes[outcome] += 1
    return outcomes, slowest, peak_bytes() - before, failures


def limit_memory() -> int:
    """Let an allocation that is far too large fail; return the highest memory so far."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + MAX_GROWTH_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    return peak_bytes()


def peak_bytes() -> int:
    """Return the most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def store(descriptor: int, content: bytes) -> None:
    """Make this the content of the file in memory."""
    os.ftruncate(descriptor, len(content))
    os.pwrite(descriptor, content, 0)


def make_samples() -> list[Sample]:
    """Make small files with every codec, filter, layout and kind of tensor."""
    generator = torch.Generator().manual_seed(0)
    walk = torch.randn(6, 8, 5, generator=generator).round().cumsum(1)
    codings = [Coding("lz4", name, axis) for name in FILTERS for axis in (None, 1)]
    codings += [blocks.UNCOMPRESSED]
    samples = []
    real_choose, real_block = container.choose_coding, blocks.BLOCK_BYTES
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.nvrl")
        blocks.BLOCK_BYTES = 320
        for coding in codings:
            container.choose_coding = lambda *_, coding=coding: coding
            dtypes = (torch.float32, torch.int16, torch.float64)
            tensors = {str(dtype): walk.to(dtype) for dtype in dtypes}
            container.write(path, tensors, {"kind": "x"}, compress=True)
            samples.append(taken_apart(path, lambda file: container.read(file, MAX_BYTES)))
        container.choose_coding, blocks.BLOCK_BYTES = real_choose, real_block
        container.write(path, {"b": walk > 0, "n": torch.empty(0, 2), "s": torch.tensor(1)}, {})
        samples.append(taken_apart(path, lambda file: container.read(file, MAX_BYTES, mapped=True)))
        now = TensorDict({"x": walk, "done": walk[..., :1] > 2}, batch_size=[6, 8])
        now["next"] = TensorDict({"x": walk.roll(-1, 1), "r": walk}, batch_size=[6, 8])
        storage = RolloutStorage(
            directory=Path(folder), save_every=1, keep_last=1, drop=[], compress=True
        )
        file = storage.save(now.set_non_tensor("version", 3), iteration=1)
        samples.append(taken_apart(file, lambda file: load_rollout(file, max_bytes=MAX_BYTES)))
    return samples


def taken_apart(path: Path, read: Callable[[Path], object]) -> Sample:
    """Return the header and the payload of an intact file."""
    content = path.read_bytes()
    header_len = int.from_bytes(content[8:16], "little")
    return Sample(json.loads(content[64 : 64 + header_len]), content[64 + header_len :], read)


def mutated(sample: Sample, dice: random.Random) -> bytes:
    """Return the file with one to three changes; mostly signed again, to pass the checksums."""
    header, payload = json.loads(json.dumps(sample.header)), bytearray(sample.payload)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        kind = dice.randrange(4)
        if kind == 0:
            change_json(header, dice)
        elif kind == 1:
            change_row(header.get("t"), dice)
        else:
            change_bytes(payload, dice)
    signed = dice.random() < 0.9
    content = bytearray(build(header, bytes(payload), signed=signed))
    if dice.random() < 0.1:
        change_bytes(content, dice)
    return bytes(content)


def change_json(node: Any, dice: random.Random) -> None:
    """Replace, remove, repeat or exchange something, anywhere in the header."""
    while isinstance(node, dict | list) and node:
        place = dice.choice(list(node) if isinstance(node, dict) else range(len(node)))
        child = node[place]
        if isinstance(child, dict | list) and child and dice.random() < 0.85:
            node = child
            continue
        action = dice.randrange(5)
        if action == 0 and isinstance(node, list):
            node.insert(place, child)
        elif action == 1:
            del node[place]
        elif action == 2 and isinstance(child, int):
            node[place] = child + dice.choice((-1, 1, -8, 8, child, 2 ** dice.randrange(64)))
        else:
            # A copy: a later change must not reach the list that all inputs choose from.
            node[place] = copy.deepcopy(dice.choice(dice.choice((WORDS, NUMBERS, OTHERS))))
        return


def change_row(table: Any, dice: random.Random) -> None:
    """Put a plausible value into a row, or a value of another row."""
    if not isinstance(table, list) or not table:
        return
    row = dice.choice(table)
    if not isinstance(row, list) or len(row) != 8:
        return
    place = dice.randrange(1, 8)
    if place == 7:
        change_json(row[7], dice)
        return
    known = {1: list(ITEM_BYTES), 3: list(CODECS), 4: list(FILTERS)}
    other = dice.choice(table)
    row[place] = (
        dice.choice(known[place])
        if place in known
        else dice.choice(
            ([8, 6, 5], [240], [2, 0, 2**40], [4_000_000], [1, 240, 1], 1, 2, None, 96)
        )
        if dice.random() < 0.7 or not isinstance(other, list) or len(other) != 8
        else other[place]
    )


def change_bytes(content: bytearray, dice: random.Random) -> None:
    """Flip, set, cut, insert or copy some bytes."""
    if not content:
        return
    at = dice.randrange(len(content))
    length = dice.choice((1, 2, 4, 8, 64))
    action = dice.randrange(6)
    if action < 2:
        content[at] ^= 1 << dice.randrange(8)
    elif action == 2:
        content[at : at + length] = bytes([dice.choice((0, 1, 0x7F, 0x80, 0xFF))]) * length
    elif action == 3:
        del content[at : at + length]
    elif action == 4:
        content[at:at] = dice.randbytes(length)
    else:
        start = dice.randrange(len(content))
        content[at : at + length] = content[start : start + length]


def build(header: dict[str, Any], payload: bytes, *, signed: bool = True) -> bytes:
    """Return a file of these parts; signed means that all sizes and checksums that can be right are."""
    decoded = sign_blocks(header, payload) if signed else 960
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64)
    sizes = b"NVRL\x03\r\n\x1a" + struct.pack("<QQQ", len(text), len(payload), decoded)
    return sizes + hashlib.sha256(sizes + text).digest() + text + payload


def sign_blocks(header: dict[str, Any], payload: bytes) -> int:
    """Correct the checksums of the table as it is now; return the bytes its tensors would have."""
    end = decoded = 0
    try:
        for _, dtype, shape, *_, stored in header["t"]:
            end += -end % 64
            decoded += ITEM_BYTES[dtype] * math.prod(map(int, shape))
            for block in stored:
                length = int(block[0])
                block[1] = hashlib.sha256(payload[end : end + length]).hexdigest()
                end += length
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        return 0  # a reader stops there too
    return decoded if 0 <= decoded < 2**64 else 0


if __name__ == "__main__":
    sys.exit(main())
