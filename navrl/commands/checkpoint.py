"""`navrl checkpoint`: list, show, verify and compare checkpoints, and export the policy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from navrl.config.checks import ConfigError, printable, require_writable
from navrl.config.command import run_plain
from navrl.config.command_line import Action, add_actions, columns, command_parser, show
from navrl.loggers.format import size as size_text
from navrl.storage.checkpoint import check_policy_state, load, verify, write_state
from navrl.storage.compare import Difference, describe, differing, leaves
from navrl.storage.files import read_json
from navrl.storage.find import OUTPUTS, find, find_files
from navrl.storage.header import CorruptFile
from navrl.storage.info import BEST, LATEST, CheckpointInfo, checkpoint_files

_EXAMPLES = """  navrl checkpoint ls latest                     the checkpoints of the newest run
  navrl checkpoint show latest --depth 2         the contents of the newest one
  navrl checkpoint verify outputs/my_run         read every byte; exit code 1 if something is damaged
  navrl checkpoint export best policy.ckpt       the policy alone, for navrl evaluate and navrl replay
  navrl checkpoint diff a.ckpt b.ckpt            the differences; exit code 1 if there are any"""
_KEPT = ("config", "choices", "frames", "iteration")  # besides the weights, of an exported policy


class Entry(NamedTuple):
    """A checkpoint file; `facts` is a sentence about the damage if it is not intact."""

    path: Path
    size: int  # bytes
    facts: CheckpointInfo | str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl checkpoint`."""
    return run_plain(_parser(), lambda options: int(options.run(options)), arguments)


def entries(where: str) -> list[Entry]:
    """Return the checkpoints of a run or a folder, most frames first, or the one named file."""
    paths = find_files(where, OUTPUTS, "checkpoints", checkpoint_files)
    return [_entry(path) for path in paths]


def _entry(path: Path) -> Entry:
    size = 0
    try:
        size = path.stat().st_size
        return Entry(path, size, verify(path))
    except OSError as error:  # for example deleted meanwhile by its run
        return Entry(path, size, f"unreadable: {error.strerror}")
    except CorruptFile as error:
        return Entry(path, size, printable(error.verdict))
    except ValueError:  # it is not called step_<frames>.ckpt
        return _named_otherwise(path, size)


def _named_otherwise(path: Path, size: int) -> Entry:
    """Return the entry of a checkpoint with any other name."""
    frames = load(path).get("frames")
    return Entry(path, size, CheckpointInfo(frames if type(frames) is int else 0, 0, None, ""))


def _list(options: argparse.Namespace) -> int:
    found = entries(options.where)
    pointers = _pointers(found[0].path.parent)
    rows = [("frames", "stage", "score", "size", "state", "file")]
    for path, size, facts in found:
        names = [name for name, file in pointers.items() if file == path.name]
        file = f"{path.name}  <- {', '.join(names)}" if names else path.name
        if isinstance(facts, str):
            rows.append(("-", "-", "-", size_text(size), facts, file))
            continue
        score = "-" if facts.score is None else f"{facts.score:.4g}"
        rows.append((f"{facts.frames:,}", str(facts.stage + 1), score, size_text(size), "ok", file))
    show(columns(rows))
    return 0


def _pointers(folder: Path) -> dict[str, str]:
    """Return the files that the pointer files of a folder name; they are shown, never followed."""
    found = {}
    for name in (LATEST, BEST):
        try:
            found[name] = str(read_json(folder / name)["file"])
        except (OSError, ValueError, LookupError, TypeError):
            continue  # it does not exist, or navrl did not write it
    return found


def _show(options: argparse.Namespace) -> int:
    path = find(options.where, OUTPUTS)
    lines = [
        f"{printable(path)}  {size_text(path.stat().st_size)}",
        *_tree(load(path), options.depth, 0),
    ]
    show("\n".join(lines) + "\n")
    return 0


def _tree(node: Any, depth: int, level: int) -> Iterator[str]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        indent = "  " * (level + 1)
        if not isinstance(value, dict | list | tuple) or not value:
            text = describe(value)
            yield f"{indent}{printable(key)}  {text if len(text) <= 80 else text[:77] + '...'}"
            continue
        tensors = [leaf for _, leaf in leaves(value) if isinstance(leaf, Tensor)]
        size = size_text(sum(tensor.numel() * tensor.element_size() for tensor in tensors))
        inside = f"{len(tensors)} tensors, {size}" if tensors else f"{len(value)} entries"
        yield f"{indent}{printable(key)}/  {inside}"
        if level + 1 < depth:
            yield from _tree(value, depth, level + 1)


def _verify(options: argparse.Namespace) -> int:
    found = entries(options.where)
    for path, size, facts in found:
        verdict = facts if isinstance(facts, str) else "ok"
        show(f"{verdict}  {printable(path)}  {size_text(size)}\n")
    return int(any(isinstance(entry.facts, str) for entry in found))


def _export(options: argparse.Namespace) -> int:
    require_writable(options.output, "OUTPUT")
    _spare_runs(options.output)
    path = find(options.where, OUTPUTS)
    state = load(path)
    missing = [name for name in (*_KEPT, "agent") if name not in state]
    if missing:
        raise ConfigError(f"{path} holds no {', '.join(missing)}; expected a training run's")
    check_policy_state(state, str(path))
    policy = {"agent": {"policy": state["agent"]["policy"]}, **{key: state[key] for key in _KEPT}}
    write_state(options.output, policy, frames=state["frames"], score=None)
    sizes = (size_text(file.stat().st_size) for file in (options.output, path))
    show(f"{options.output}: {' of the '.join(sizes)} of {path}\n")
    return 0


def _spare_runs(output: Path) -> None:
    """Raise ConfigError if the file exists and belongs to a run, which may need it to resume."""
    if output.exists() and any(
        (folder / "config.yaml").is_file() for folder in output.resolve().parents[:2]
    ):
        raise ConfigError(
            f"OUTPUT = {output} is a file of a run; expected a name that the run does not use; change OUTPUT"
        )


def _diff(options: argparse.Namespace) -> int:
    one, two = (find(name, OUTPUTS) for name in (options.where, options.other))
    found = differing(load(one), load(two))
    if not found:
        show(f"{one} and {two} hold the same\n")
        return 0
    rows = [("leaf", "differs by", "of the elements", "in the first", "in the second")]
    show(columns([*rows, *map(_difference_row, found)]))
    show(f"{len(found)} {'differ' if len(found) > 1 else 'differs'}\n")
    return 1


def _difference_row(difference: Difference) -> tuple[str, ...]:
    largest = "-" if difference.largest is None else f"{difference.largest:.3g}"
    share = "-" if difference.share is None else f"{difference.share:.1%}"
    return (
        printable(difference.path),
        largest,
        share,
        difference.first[:40],
        difference.second[:40],
    )


def _parser() -> argparse.ArgumentParser:
    actions = (
        Action("ls", _list, "list the checkpoints of a run; every one is read and checked"),
        Action("show", _show, "print the tree of a checkpoint with shapes"),
        Action("verify", _verify, "read every byte of a run's checkpoints; 1 if one is damaged"),
        Action("export", _export, "write the weights of the policy alone"),
        Action("diff", _diff, "compare two checkpoints leaf by leaf; 1 if they differ"),
    )
    described = "List, show, verify and compare checkpoints, and export the policy."
    parser = command_parser("checkpoint", described, _EXAMPLES)
    added = add_actions(parser, actions)
    added["show"].add_argument("--depth", type=int, default=3, help="levels; default: %(default)s")
    added["export"].add_argument("output", type=Path, metavar="OUTPUT", help="the file to write")
    added["diff"].add_argument("other", help="the second checkpoint, named in the same ways")
    return parser


if __name__ == "__main__":
    sys.exit(main())
