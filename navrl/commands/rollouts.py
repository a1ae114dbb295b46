"""`navrl rollouts`: list, show, verify and export the rollouts that a run with rollouts=disk has saved."""

from __future__ import annotations

import argparse
import hashlib
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor

from navrl.config.checks import printable, require_writable
from navrl.config.command import run_plain
from navrl.config.command_line import Action, add_actions, command_parser, show
from navrl.loggers.format import size as size_text
from navrl.storage.files import replacing
from navrl.storage.find import OUTPUTS, find_files
from navrl.storage.header import CorruptFile, Header
from navrl.storage.rollout_format import Key
from navrl.storage.rollouts import load_rollout, rollout_files, rollout_header

_LONGEST_NAME = 200  # of an array; a zip holds 65,535 bytes
_EMPTY = "%"  # in place of an empty name, which quoting leaves empty
_EXAMPLES = """  navrl rollouts ls                                       those of the newest run
  navrl rollouts show outputs/latest/rollouts/rollout_000100.nvrl
  navrl rollouts verify outputs/latest                    exit code 1 if something is damaged
  navrl rollouts export latest rollout.npz                the newest one
  navrl rollouts export rollout_000100.nvrl part.npz --keys observation/lidar next/reward"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl rollouts`."""
    return run_plain(_parser(), lambda options: int(options.run(options)), arguments)


def _list(options: argparse.Namespace) -> int:
    """Print a row for every file."""
    files = _files(options.where)
    width = max(len(printable(path)) for path in files)
    show(f"{'file':<{width}}  {'frames':>12}  {'MB':>8}  {'on disk':>8}  {'share':>6}\n")
    for path in files:
        try:
            header = rollout_header(path)
        except CorruptFile as error:
            show(f"{printable(error)}\n")
            continue
        frames = " x ".join(map(str, header.meta["batch_size"]))
        show(f"{printable(path):<{width}}  {frames:>12}  {_sizes(header)}\n")
    return 0


def _show(options: argparse.Namespace) -> int:
    """Print the contents of one file, tensor by tensor."""
    header = rollout_header(_newest(options.where))
    facts = {key: header.meta[key] for key in ("kind", "iteration", "batch_size")}
    facts |= {"/".join(key): value for key, value in header.meta["values"]}
    for name, value in {**facts, "sha256": header.sha256}.items():
        show(f"{printable(name):<12}  {printable(value)}\n")
    width = max((len(printable(row.name)) for row in header.rows), default=6)
    show(f"\n{'tensor':<{width}}  {'dtype':<8}  {'encoded by':<18}  {'share':>6}  shape\n")
    for row in header.rows:
        how = row.codec if row.filter == "none" else f"{row.codec} {row.filter}"
        how += "" if row.axis is None else " time"
        share = row.stored_bytes / max(row.raw_bytes, 1)
        show(
            f"{printable(row.name):<{width}}  {row.dtype:<8}  {how:<18}  {share:>6.1%}  {row.shape}\n"
        )
    show(f"\n{_sizes(header).strip()} (MB, on disk, share)\n")
    return 0


def _verify(options: argparse.Namespace) -> int:
    """Read every file; return 1 if one is damaged."""
    files, damaged = _files(options.where), 0
    for path in files:
        try:
            load_rollout(path)
            show(f"{printable(path)}: intact\n")
        except CorruptFile as error:
            damaged += 1
            show(f"{printable(error)}\n")
    show(f"{len(files) - damaged} of {len(files)} intact\n")
    return int(damaged > 0)


def _export(options: argparse.Namespace) -> int:
    """Write the tensors as arrays in one .npz file, with names such as next/reward."""
    require_writable(options.output, "OUTPUT", suffix=".npz")
    path = _newest(options.where)
    keys = None if options.keys is None else _keys_of(options.keys, rollout_header(path))
    rollout = load_rollout(path, keys)
    arrays = {
        _array_name((key,) if isinstance(key, str) else key): _array(item)
        for key, item in rollout.items(include_nested=True, leaves_only=True)
        if isinstance(item, Tensor)
    }
    # Not numpy.savez, whose own arguments would be names that no tensor can have.
    with replacing(options.output) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    size = options.output.stat().st_size
    show(f"wrote {options.output} ({len(arrays)} arrays, {size_text(size)})\n")
    return 0


def _array_name(key: Key) -> str:
    """Return a name that no other key has, and that neither numpy nor zip reads as anything else.

    Letters, digits, "_", "-" and "." stand for themselves, everything else is quoted as in a URL.
    """
    name = "/".join(map(_quoted, key))
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{name[: _LONGEST_NAME - len(digest) - 2]}%-{digest}"


def _quoted(part: str) -> str:
    """Return one name of a key; no folder above, no name that looks like that of a file."""
    quoted = quote(part, safe="", errors="surrogatepass") or _EMPTY
    if not quoted.strip(".") or quoted.endswith(".npy"):
        quoted = quoted.replace(".", "%2E")
    return quoted


def _keys_of(names: Sequence[str], header: Header) -> list[Key]:
    """Return the keys, or beginnings of keys, that become arrays of these names."""
    keys = [tuple(key[:end]) for key in header.meta["keys"] for end in range(1, len(key) + 1)]
    known = {_array_name(key): key for key in keys}
    return [known.get(name, tuple(name.split("/"))) for name in names]


def _array(tensor: Tensor) -> np.ndarray:
    """Return the tensor for numpy, which has no bfloat16; float32 holds each of its values."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _files(where: str) -> list[Path]:
    return find_files(where, OUTPUTS, "rollouts", rollout_files)


def _newest(where: str) -> Path:
    return _files(where)[-1]


def _sizes(header: Header) -> str:
    raw, saved = header.sizes.decoded, header.sizes.file
    return f"{raw / 1e6:8.1f}  {saved / 1e6:8.2f}  {saved / max(raw, 1):6.1%}"


def _parser() -> argparse.ArgumentParser:
    actions = (
        Action("ls", _list, "list the rollouts of a run"),
        Action("show", _show, "print the contents of one, by default the newest"),
        Action("verify", _verify, "read every byte of a run's rollouts; 1 if one is damaged"),
        Action("export", _export, "write one, by default the newest, as arrays"),
    )
    described = (
        "List, show, verify and export the rollouts that a run with rollouts=disk has saved."
    )
    parser = command_parser("rollouts", described, _EXAMPLES)
    export = add_actions(parser, actions)["export"]
    export.add_argument("output", type=Path, metavar="OUTPUT", help="the .npz file to write")
    export.add_argument(
        "--keys",
        nargs="+",
        metavar="KEY",
        help="names of arrays, or groups of them, such as next; default: all",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
