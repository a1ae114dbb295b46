"""Measure files: a navigation rollout and a trained state, written and read in every way.

    .venv/bin/python scripts/bench_container.py [--iterations 12] [world=pillars] [num_envs=1024] ...

Rates count the bytes in memory of the tensors in the file, without repetitions that it leaves out. CPU
seconds are those of all threads together.
"""

import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.config.compose import build, compose
from navrl.storage import container
from navrl.storage.header import read_header
from navrl.storage.rollout_format import pack
from navrl.storage.rollouts import RolloutStorage, load_rollout
from navrl.storage.tree import flatten
from timing import Seconds, alternate, best, parser

REPEATS = 7
DEFAULTS = ("env=navigation", "agent=ppo_navigation", "world=pillars")


def main() -> None:
    """Print everything."""
    options_parser = parser(__doc__, overrides=True)
    options_parser.add_argument(
        "--iterations", type=int, default=12, help="of training before; default: 12"
    )
    options = options_parser.parse_args()
    torch.set_num_threads(1)
    rollout, state = trained([*DEFAULTS, *options.overrides], options.iterations)
    print_checksums()
    with tempfile.TemporaryDirectory(dir=shared_memory()) as folder:
        print_rollout(Path(folder), rollout)
        print_state(Path(folder, "state.nvrl"), state)


def shared_memory() -> str | None:
    """Return a folder in memory, if there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def trained(overrides: list[str], iterations: int) -> tuple[TensorDictBase, dict[str, Any]]:
    """Return the rollout and the agent's state after so many iterations."""
    cfg = compose("train", overrides)
    torch.manual_seed(cfg.seed)
    env = build(cfg.env)(num_envs=cfg.num_envs, device="cpu", seed=cfg.seed)
    agent = build(cfg.agent)(
        observation_spec=env.observation_spec,
        action_spec=env.action_spec,
        device="cpu",
        num_iterations=100,
    )
    collector = build(cfg.collector)(
        env=env,
        policy=agent.policy,
        rollout_steps=cfg.rollout_steps,
        total_frames=(iterations + 1) * cfg.num_envs * cfg.rollout_steps,
    )
    for iteration, rollout in enumerate(collector):
        if iteration == iterations:
            kept = rollout.clone()
            collector.shutdown()
            return kept, agent.state_dict()
        agent.update(rollout)
    raise AssertionError("the collector stopped early")


def shortest(function: Callable[[], object]) -> Seconds:
    """Return the shortest times of a few calls."""
    return best(alternate({"": function}, REPEATS)[""])


def rate(raw_bytes: int, took: Seconds) -> str:
    """Return gigabytes of tensors a second."""
    return f"{raw_bytes / took.clock / 1e9:6.2f} GB/s  {raw_bytes / took.processor / 1e9:6.2f} GB per CPU s"


def print_checksums() -> None:
    """Print the speed of checksums on this machine."""
    content = os.urandom(16 << 20)
    print("checksums")
    for name, function in (
        ("sha256", lambda: hashlib.sha256(content).digest()),
        ("blake2b", lambda: hashlib.blake2b(content).digest()),
        ("crc32", lambda: zlib.crc32(content)),
    ):
        print(f"  {name:<22}{rate(len(content), shortest(function))}")


def print_rollout(folder: Path, rollout: TensorDictBase) -> None:
    """Print sizes, shares and rates of a rollout on disk."""
    yielded = sum(rollout[key].nbytes for key in keys_of(rollout))
    lidar = rollout["observation", "lidar"]
    packed = pack(rollout)
    raw = sum(tensor.nbytes for tensor in packed.tensors.values())
    print(f"rollout of {' x '.join(map(str, rollout.batch_size))} frames")
    print(f"  free beams            {(lidar == 0).float().mean():8.1%}")
    print(f"  the collector yields  {yielded / 1e6:8.2f} MB")
    print(f"  without repetitions   {raw / 1e6:8.2f} MB")
    for compress in (True, False):
        print_storage(folder, rollout, packed.tensors, compress)


def print_storage(
    folder: Path, rollout: TensorDictBase, tensors: dict[str, Tensor], compress: bool
) -> None:
    """Print size, rates with packing and without, and whether the same bits come back."""
    storage = RolloutStorage(
        directory=folder, save_every=1, keep_last=1, drop=[], compress=compress
    )
    path = storage.save(rollout, iteration=1)
    raw = sum(tensor.nbytes for tensor in tensors.values())
    yielded = sum(rollout[key].nbytes for key in keys_of(rollout))
    size = path.stat().st_size
    print(f"compress={compress}: {size / 1e6:.2f} MB, {size / yielded:.3f} of what is yielded")
    save = shortest(lambda: storage.save(rollout, iteration=1))
    print(f"  save                  {rate(raw, save)}")
    print(f"  load                  {rate(raw, shortest(lambda: load_rollout(path)))}")
    for threads in (1, 2):
        print_rates(path.with_name("x.nvrl"), tensors, raw, compress, threads)
    found = load_rollout(path)
    exact = all(same_bits(found[key], rollout[key]) for key in keys_of(rollout))
    print(f"  bit-exact             {exact}")
    if compress:
        print_tensors(path)


def print_rates(
    path: Path, tensors: dict[str, Tensor], raw: int, compress: bool, threads: int
) -> None:
    """Print rates of writing and reading the same tensors, without packing them."""
    write = shortest(
        lambda: container.write(path, tensors, {}, compress=compress, time_axis=1, threads=threads)
    )
    print(f"  write, {threads} threads      {rate(raw, write)}")
    read = shortest(lambda: container.read(path, threads=threads))
    print(f"  read, {threads} threads       {rate(raw, read)}")


def keys_of(rollout: TensorDictBase) -> list[Any]:
    """Return the keys of all tensors."""
    items = rollout.items(include_nested=True, leaves_only=True)
    return [key for key, item in items if isinstance(item, Tensor)]


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Return whether they are the same values, NaN and signed zeros included."""
    raw = (tensor.contiguous().view(-1).view(torch.uint8) for tensor in (left, right))
    return left.shape == right.shape and torch.equal(*raw)


def print_tensors(path: Path) -> None:
    """Print the coding of each tensor, and its share."""
    for row in read_header(path).rows:
        how = " ".join(filter(None, (row.codec, row.filter, row.axis and "time last")))
        share = row.stored_bytes / max(row.raw_bytes, 1)
        print(f"    {row.name:<30}{row.raw_bytes / 1e6:8.2f} MB  {share:7.3f}  {how}")


def print_state(path: Path, state: dict[str, Any]) -> None:
    """Print the same for the largest part of a checkpoint: weights and optimizer state."""
    tensors, _ = flatten(state)
    raw = sum(tensor.nbytes for tensor in tensors.values())
    print(f"trained state: {len(tensors)} tensors, {raw / 1e6:.2f} MB")
    for compress in (False, True):
        write = shortest(lambda c=compress: container.write(path, tensors, {}, compress=c))
        share = path.stat().st_size / raw
        print(f"  {'lz4' if compress else 'raw':<10}{share:6.3f}  write {rate(raw, write)}")
        print(f"  {'':<16}  read  {rate(raw, shortest(lambda: container.read(path)))}")


if __name__ == "__main__":
    main()
