"""Flipped bits and cut ends: a reader accepts nothing but what was written."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from tensordict import TensorDict

from navrl.storage.checkpoint import load, write_state
from navrl.storage.container import CorruptFile
from navrl.storage.rollouts import RolloutStorage


class Damage(NamedTuple):
    """What became of the damaged copies of a file."""

    tried: int
    refused: int  # with the named error
    silent: int  # accepted
    other: int  # another exception


def sample(path: Path) -> Path:
    """A small checkpoint with what real ones have: floats, ints, bools, empty tensors, text, nesting."""
    generator = torch.Generator().manual_seed(0)
    weights = {f"layer{i}": torch.randn(48, 48, generator=generator) * 0.1 + 0.01 for i in range(6)}
    state = {
        "agent": {"policy": weights, "step": torch.tensor(7.0), "empty": torch.zeros(0, 3)},
        "env": {"world": [torch.arange(512), torch.rand(64, generator=generator) > 0.9]},
        "config": {"name": "sample", "sizes": [1, 2, 3], "rate": 3e-4},
    }
    write_state(path, state, frames=1, score=0.5)
    return path


def sample_rollout(place: Path) -> Path:
    """A small rollout in which most of what "next" has is repeated."""
    generator = torch.Generator().manual_seed(0)
    seen = torch.rand(8, 17, 36, generator=generator).round(decimals=1)
    done = torch.rand(8, 16, 1, generator=generator) > 0.9
    after = {"observation": seen[:, 1:], "done": done, "reward": seen[:, 1:, :1]}
    now = {"observation": seen[:, :-1], "done": torch.zeros_like(done), "next": after}
    storage = RolloutStorage(directory=place, save_every=1, keep_last=1, drop=[], compress=True)
    return storage.save(TensorDict(now, batch_size=[8, 16]), iteration=1)


def flip_bits(path: Path, count: int, seed: int, read: Callable[[Path], object] = load) -> Damage:
    """Every copy has one random bit flipped."""
    content = path.read_bytes()

    def damaged(rng: random.Random) -> bytes:
        copy = bytearray(content)
        copy[rng.randrange(len(copy))] ^= 1 << rng.randrange(8)
        return bytes(copy)

    return _try(path, count, random.Random(seed), damaged, read)


def truncate(path: Path, count: int, seed: int, read: Callable[[Path], object] = load) -> Damage:
    """Every copy ends early, one in ten within the last 100 bytes."""
    content = path.read_bytes()

    def damaged(rng: random.Random) -> bytes:
        near_end = rng.random() < 0.1
        return content[: rng.randrange(max(0, len(content) - 100) if near_end else 0, len(content))]

    return _try(path, count, random.Random(seed), damaged, read)


def _try(
    path: Path,
    count: int,
    rng: random.Random,
    damaged: Callable[[random.Random], bytes],
    read: Callable[[Path], object],
) -> Damage:
    copy = path.with_name(f"damaged_{path.name}")
    refused = silent = other = 0
    for _ in range(count):
        copy.write_bytes(damaged(rng))
        try:
            read(copy)
            silent += 1
        except CorruptFile:
            refused += 1
        except Exception:  # noqa: BLE001 (to be counted is all that can happen to it)
            other += 1
    copy.unlink(missing_ok=True)
    return Damage(count, refused, silent, other)
