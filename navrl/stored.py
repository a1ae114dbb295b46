"""navrl rollouts: what a run with rollouts=disk has kept, and taking it elsewhere."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from navrl.checkpoint.atomic import replace_file
from navrl.checkpoint.container import CorruptFile, Header, read_header
from navrl.checkpoint.resume import find
from navrl.config import ConfigError, run_plain
from navrl.options import check_writable
from navrl.rollouts.storage import load_rollout, stored_rollouts
from navrl.subject import OUTPUTS

_EXAMPLES = """examples:
  navrl rollouts ls
  navrl rollouts ls outputs/navigation-ppo_navigation/20261118-141133-017a
  navrl rollouts show outputs/latest/rollouts/rollout_000100.nvrl
  navrl rollouts verify outputs/latest
  navrl rollouts export outputs/latest/rollouts/rollout_000100.nvrl --output rollout.npz
  navrl rollouts export rollout_000100.nvrl --keys observation/lidar next/reward --output part.npz"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of `navrl rollouts`."""
    return run_plain(_parser(), lambda options: options.run(options), arguments)


def ls(options: argparse.Namespace) -> None:
    """One line for every file."""
    files = _files(options.where)
    width = max(len(str(path)) for path in files)
    sys.stdout.write(
        f"{'file':<{width}}  {'frames':>12}  {'MB':>8}  {'on disk':>8}  {'share':>6}\n"
    )
    for path in files:
        try:
            header = read_header(path)
        except CorruptFile as error:
            sys.stdout.write(f"{error}\n")
            continue
        frames = " x ".join(str(size) for size in header.meta.get("batch_size", []))
        sys.stdout.write(f"{path!s:<{width}}  {frames:>12}  {_sizes(header)}\n")


def show(options: argparse.Namespace) -> None:
    """What one file holds, tensor by tensor."""
    header = read_header(options.file)
    facts = {
        key: value
        for key, value in header.meta.items()
        if key in ("kind", "iteration", "batch_size")
    }
    values = {"/".join(key): value for key, value in header.meta.get("values", [])}
    for name, value in {**facts, **values, "sha256": header.sha256}.items():
        sys.stdout.write(f"{name:<12}  {value}\n")
    width = max(len(row.name) for row in header.rows)
    sys.stdout.write(
        f"\n{'tensor':<{width}}  {'dtype':<8}  {'stored by':<18}  {'share':>6}  shape\n"
    )
    for row in header.rows:
        how = row.codec if row.filter == "none" else f"{row.codec} {row.filter}"
        how += "" if row.axis is None else " time"
        share = row.stored_bytes / max(row.raw_bytes, 1)
        sys.stdout.write(
            f"{row.name:<{width}}  {row.dtype:<8}  {how:<18}  {share:>6.1%}  {row.shape}\n"
        )
    sys.stdout.write(f"\n{_sizes(header).strip()} (MB, on disk, share)\n")


def verify(options: argparse.Namespace) -> None:
    """Read everything; exit code 1 if anything is not what was written."""
    files, damaged = _files(options.where), 0
    for path in files:
        try:
            load_rollout(path)
            sys.stdout.write(f"{path}: intact\n")
        except CorruptFile as error:
            damaged += 1
            sys.stdout.write(f"{error}\n")
    sys.stdout.write(f"{len(files) - damaged} of {len(files)} intact\n")
    if damaged:
        raise SystemExit(1)


def export(options: argparse.Namespace) -> None:
    """The tensors as arrays in one .npz file, under names like next/reward."""
    if options.output.suffix != ".npz":
        raise ConfigError(
            f"--output {options.output}; expected a name that ends in .npz; change --output"
        )
    check_writable(options.output)
    rollout = load_rollout(options.file, options.keys)
    arrays = {
        "/".join((key,) if isinstance(key, str) else key): _array(item)
        for key, item in rollout.items(include_nested=True, leaves_only=True)
        if isinstance(item, Tensor)
    }
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    replace_file(options.output, [content.getbuffer()])
    size = options.output.stat().st_size / 1e6
    sys.stdout.write(f"wrote {options.output} ({len(arrays)} arrays, {size:.1f} MB)\n")


def _array(tensor: Tensor) -> np.ndarray:
    """numpy has no bfloat16, but float32 holds each of its values."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _files(where: str) -> list[Path]:
    """A file, or those of a directory, of a run, or of what `navrl train` would resume."""
    place = Path(where)
    if place.is_file():
        return [place]
    if not place.is_dir():
        place = find(where, OUTPUTS).parent.parent
    for folder in (place, place / "rollouts"):
        if folder.is_dir() and (files := stored_rollouts(folder)):
            return files
    raise ConfigError(f"{place} has no rollouts; train with rollouts=disk to keep some")


def _sizes(header: Header) -> str:
    raw, stored = header.sizes.decoded, header.sizes.file
    return f"{raw / 1e6:8.1f}  {stored / 1e6:8.2f}  {stored / max(raw, 1):6.1%}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="navrl rollouts",
        description="Look at the rollouts that a run with rollouts=disk has kept.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for function, help_text in ((ls, "list them"), (verify, "check every byte of them")):
        command = commands.add_parser(function.__name__, help=help_text)
        command.add_argument(
            "where",
            nargs="?",
            default="latest",
            help="a run, a directory with rollouts, a file; default: the latest run",
        )
        command.set_defaults(run=function)
    for function, help_text in ((show, "what one holds"), (export, "write one as .npz")):
        command = commands.add_parser(function.__name__, help=help_text)
        command.add_argument("file", type=Path)
        command.set_defaults(run=function)
    command.add_argument("--output", type=Path, required=True, metavar="FILE", help="a .npz file")
    command.add_argument(
        "--keys", nargs="+", metavar="KEY", help="such as observation/lidar; default: all"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
