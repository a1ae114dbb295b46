"""Try every fault that checkpoints and rollouts have to survive; exit code 1 if a promise was broken.

    .venv/bin/python scripts/fault_campaign.py [--kills 1000] [--flips 10000] [--truncations 1000] ...

Flipped bits, cut ends, full disks, limits on the size of files, killed savers, trainings and ranks, races.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from tensordict import TensorDict

import fault_disk
import fault_kills
import fault_orphans
import fault_races
import fault_ranks
from navrl.storage.checkpoint import load, write_state
from navrl.storage.header import CorruptFile
from navrl.storage.rollouts import RolloutStorage, load_rollout
from timing import parser


class Damage(NamedTuple):
    """Counts of the damaged copies of a file."""

    tried: int
    refused: int  # with the named error
    silent: int  # accepted
    other: int  # another exception


def sample(path: Path) -> Path:
    """Write a small checkpoint with floats, ints, bools, empty tensors, text and nesting."""
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
    """Write a small rollout in which "next" mostly repeats the following step."""
    generator = torch.Generator().manual_seed(0)
    seen = torch.rand(8, 17, 36, generator=generator).round(decimals=1)
    done = torch.rand(8, 16, 1, generator=generator) > 0.9
    after = {"observation": seen[:, 1:], "done": done, "reward": seen[:, 1:, :1]}
    now = {"observation": seen[:, :-1], "done": torch.zeros_like(done), "next": after}
    storage = RolloutStorage(directory=place, save_every=1, keep_last=1, drop=[], compress=True)
    return storage.save(TensorDict(now, batch_size=[8, 16]), iteration=1)


def flip_bits(path: Path, count: int, seed: int, read: Callable[[Path], object] = load) -> Damage:
    """Read copies with one random bit flipped each."""
    content = path.read_bytes()

    def damaged(rng: random.Random) -> bytes:
        copy = bytearray(content)
        copy[rng.randrange(len(copy))] ^= 1 << rng.randrange(8)
        return bytes(copy)

    return _try(path, count, random.Random(seed), damaged, read)


def truncate(path: Path, count: int, seed: int, read: Callable[[Path], object] = load) -> Damage:
    """Read copies that end too early, one in ten within the last 100 bytes."""
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
        except Exception:  # noqa: BLE001 (any other exception is counted)
            other += 1
    copy.unlink(missing_ok=True)
    return Damage(count, refused, silent, other)


class Part(NamedTuple):
    """A kind of fault, its default count, and the function that tries it."""

    option: str
    count: int
    run: Callable[[int, Path, int], dict[str, tuple]]
    zero: tuple[str, ...]  # figures that have to be 0


def kills(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Kill each saver half of the times."""
    both = {"sync": fault_kills.sync_saver, "async": fault_kills.async_saver}
    return {
        name: fault_kills.kill_savers((count + 1) // 2, place / name, make, seed)
        for name, make in both.items()
    }


def flips(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Flip one bit each, in each kind of file half of the times."""
    return _damage(flip_bits, count, place, seed)


def truncations(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Cut at a random place, each kind of file half of the times."""
    return _damage(truncate, count, place, seed)


def _damage(harm: Callable[..., tuple], count: int, place: Path, seed: int) -> dict[str, tuple]:
    half = (count + 1) // 2
    rollout = sample_rollout(place / "rollouts")
    return {
        "checkpoint": harm(sample(place / "sample.ckpt"), half, seed),
        "rollout": harm(rollout, half, seed, load_rollout),
    }


def full_disks(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Let `os` fail, for each saver half of the times."""
    return _failing(fault_disk.some_operation, count, place, seed)


def file_limits(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Let the system refuse to write on, for each saver half of the times."""
    return _failing(fault_disk.some_limit, count, place, seed)


def _failing(fault: fault_disk.Fault, count: int, place: Path, seed: int) -> dict[str, tuple]:
    both = {"sync": fault_kills.sync_saver, "async": fault_kills.async_saver}
    return {
        name: fault_disk.meet((count + 1) // 2, place / name, make, fault, seed)
        for name, make in both.items()
    }


def resumes(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Kill and resume a tiny training that saves asynchronously after every iteration."""
    return {"training": fault_kills.kill_training(count, place, seed)}


def races(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Resume a run that ends at the same moment."""
    return {"training": fault_races.race(count, place)}


def orphans(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Kill supervisors, and a fifth as many trainings without one."""
    both = {"supervisor": (fault_orphans.kill_supervisors, count)}
    both["training"] = (fault_orphans.kill_trainings, (count + 4) // 5)
    return {name: kill(number, place / name, seed) for name, (kill, number) in both.items()}


def ranks(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Kill ranks and launchers of runs by several processes."""
    return {"ranks": fault_ranks.kill_ranks(count, place / "runs", seed)}


_LOSSES = ("unreadable", "damaged", "lost", "torn", "leftovers", "silent", "other", "stuck")
PARTS = (
    Part("kills", 1000, kills, _LOSSES),
    Part("flips", 10_000, flips, _LOSSES),
    Part("truncations", 1000, truncations, _LOSSES),
    Part("full-disks", 200, full_disks, _LOSSES),
    Part("file-limits", 200, file_limits, _LOSSES),
    Part("resumes", 50, resumes, ("different_leaves", "different_rows")),
    Part("races", 200, races, ("lost", "double", "wrong")),
    Part("orphans", 100, orphans, ("left", "overlaps")),
    Part("ranks", 20, ranks, fault_ranks.RankKills._fields[6:]),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if anything that has to be 0 is not."""
    options_parser = parser(__doc__)
    for part in PARTS:
        options_parser.add_argument(f"--{part.option}", type=int, default=part.count, metavar="N")
    options_parser.add_argument("--seed", type=int, default=0)
    options = vars(options_parser.parse_args(arguments))
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS:
            count = options[part.option.replace("-", "_")]
            if count == 0:
                continue
            place = Path(folder, part.option)
            place.mkdir()
            began = time.perf_counter()
            for target, found in part.run(count, place, options["seed"]).items():
                wrong = [name for name in part.zero if found._asdict().get(name, 0)]
                broken += len(wrong)
                figures = ", ".join(f"{k} {_short(v)}" for k, v in found._asdict().items())
                verdict = f"BROKEN: {', '.join(wrong)}" if wrong else "kept"
                print(f"{part.option:<12} {target:<11} {verdict:<8} {figures}", flush=True)
            print(f"{'':<12} {time.perf_counter() - began:.0f} s", flush=True)
    return 1 if broken else 0


def _short(figure: float) -> str:
    return f"{figure:.2f}" if isinstance(figure, float) else f"{figure:,}"


if __name__ == "__main__":
    sys.exit(main())
