"""Everything that may happen to a checkpoint or a rollout, many times over; 1 if a promise was broken.

python scripts/fault_campaign.py --kills 1000 --flips 10000 --truncations 1000 --file-limits 200
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import fault_damage
import fault_disk
import fault_kills
import fault_resume
from navrl.storage.rollouts import load_rollout


class Part(NamedTuple):
    """One kind of fault: how often by default, and what does it."""

    option: str
    count: int
    run: Callable[[int, Path, int], dict[str, tuple]]
    zero: tuple[str, ...]  # figures that have to be 0


def kills(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Half of them for each saver."""
    both = {"sync": fault_kills.sync_saver, "async": fault_kills.async_saver}
    return {
        name: fault_kills.kill_savers((count + 1) // 2, place / name, make, seed)
        for name, make in both.items()
    }


def flips(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """One bit each, half of them for each kind of file."""
    return _damage(fault_damage.flip_bits, count, place, seed)


def truncations(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """At a random place each, half of them for each kind of file."""
    return _damage(fault_damage.truncate, count, place, seed)


def _damage(harm: Callable[..., tuple], count: int, place: Path, seed: int) -> dict[str, tuple]:
    half = (count + 1) // 2
    rollout = fault_damage.sample_rollout(place / "rollouts")
    return {
        "checkpoint": harm(fault_damage.sample(place / "sample.ckpt"), half, seed),
        "rollout": harm(rollout, half, seed, load_rollout),
    }


def full_disks(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Half of them for each saver; `os` is made to fail."""
    return _failing(fault_disk.some_operation, count, place, seed)


def file_limits(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Half of them for each saver; the system itself refuses to write on."""
    return _failing(fault_disk.some_limit, count, place, seed)


def _failing(fault: fault_disk.Fault, count: int, place: Path, seed: int) -> dict[str, tuple]:
    both = {"sync": fault_kills.sync_saver, "async": fault_kills.async_saver}
    return {
        name: fault_disk.meet((count + 1) // 2, place / name, make, fault, seed)
        for name, make in both.items()
    }


def resumes(count: int, place: Path, seed: int) -> dict[str, tuple]:
    """Of a tiny training run, saved in the background after every iteration."""
    return {"training": fault_resume.kill_training(count, place, seed)}


_LOSSES = ("unreadable", "damaged", "lost", "torn", "leftovers", "silent", "other", "stuck")
PARTS = (
    Part("kills", 1000, kills, _LOSSES),
    Part("flips", 10_000, flips, _LOSSES),
    Part("truncations", 1000, truncations, _LOSSES),
    Part("full-disks", 200, full_disks, _LOSSES),
    Part("file-limits", 200, file_limits, _LOSSES),
    Part("resumes", 50, resumes, ("different_leaves", "different_rows")),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if anything that has to be 0 is not."""
    options = vars(_parser().parse_args(arguments))
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS:
            count = options[part.option.replace("-", "_")]
            if count == 0:
                continue
            place = Path(folder, part.option)
            place.mkdir()
            began = time.perf_counter()
            for subject, found in part.run(count, place, options["seed"]).items():
                wrong = [name for name in part.zero if found._asdict().get(name, 0)]
                broken += len(wrong)
                figures = ", ".join(f"{k} {_short(v)}" for k, v in found._asdict().items())
                verdict = f"BROKEN: {', '.join(wrong)}" if wrong else "kept"
                print(f"{part.option:<12} {subject:<11} {verdict:<8} {figures}", flush=True)
            print(f"{'':<12} {time.perf_counter() - began:.0f} s", flush=True)
    return 1 if broken else 0


def _short(figure: float) -> str:
    return f"{figure:.2f}" if isinstance(figure, float) else f"{figure:,}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for part in PARTS:
        parser.add_argument(f"--{part.option}", type=int, default=part.count, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
