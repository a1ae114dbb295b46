"""What `navrl checkpoint` and `navrl rollouts` have in common: how a file is named, and how it is shown."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from navrl.config.checks import ConfigError
from navrl.run.policies import OUTPUTS
from navrl.storage.checkpoint import BEST, LATEST
from navrl.storage.find import find, latest_run


class Action(NamedTuple):
    """A word after the command, and what it does."""

    name: str
    run: Callable[[argparse.Namespace], int]
    help: str


def parser_of(
    command: str, description: str, examples: str, actions: Sequence[Action]
) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """A parser of `navrl <command> <action> [where]`, and those of its actions, for more arguments."""
    parser = argparse.ArgumentParser(
        prog=f"navrl {command}",
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parsers = parser.add_subparsers(metavar="ACTION", required=True)
    added = {}
    for action in actions:
        it = added[action.name] = parsers.add_parser(
            action.name, help=action.help, description=action.help
        )
        it.set_defaults(run=action.run)
        it.add_argument(
            "where",
            nargs="?",
            default=LATEST,
            help="latest, best, a run, its folder of such files, or a file; default: %(default)s",
        )
    return parser, added


def files_of(where: str, folder: str, listed: Callable[[Path], list[Path]]) -> list[Path]:
    """The files that `listed` finds in that folder of the run that is meant, or the one that is named."""
    place = place_of(where)
    if place.is_file():  # one called latest or best only says which one
        return [find(where, OUTPUTS) if place.name in (LATEST, BEST) else place]
    for inside in (place / folder, place):
        if inside.is_dir() and (found := listed(inside)):
            return found
    raise ConfigError(
        f"{place} holds no {folder}; expected a run or its folder {folder}; name another"
    )


def place_of(where: str) -> Path:
    """The folder or file that is meant: by latest or best, or by a path, also one in outputs/."""
    run = latest_run(OUTPUTS) if where == LATEST else None
    if run is not None:
        return run
    paths = (Path(where), OUTPUTS / where) if where not in (LATEST, BEST) else ()
    for path in paths:
        if path.exists():
            return path
    return find(where, OUTPUTS).parent.parent  # or one sentence about what there is


def printable(text: object) -> str:
    """Text from a file, which may not move the cursor or change colours."""
    plain = str(text)
    return plain if plain.isprintable() else ascii(plain)


def size_text(size: float) -> str:
    """Bytes as a person reads them."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
