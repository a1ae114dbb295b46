"""`navrl runs rm` and `navrl runs archive`: what happens to a run as a whole."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from navrl.config.checks import ConfigError, printable
from navrl.config.command_line import columns, show
from navrl.config.quoting import shell_line, shown_path
from navrl.loggers.format import size
from navrl.run.lock import RunLock
from navrl.run.removal import (
    ENDING,
    archive,
    content_of,
    remove,
    require_archive,
    require_removable,
)
from navrl.run.stored_runs import is_run_folder
from navrl.storage.find import OUTPUTS, ZOO, find_place
from navrl.storage.info import BEST, LATEST

# ---- which run is meant ----


def path_of(name: str) -> Path:
    """Return the folder of the run that is named."""
    place = find_place(name, OUTPUTS)
    if not is_run_folder(place):
        raise ConfigError(f"{name} is not the folder of a run; expected one; name another")
    return place


def _removable(name: str) -> Path:
    """Return the folder of a run that may be removed: one that is named itself, and here if by latest."""
    if name == BEST or name.startswith(ZOO):
        raise ConfigError(f"{name} names a checkpoint; expected the folder of a run; name that")
    path = find_place(name, OUTPUTS)
    if name == LATEST and not path.is_relative_to(Path.cwd().resolve()):
        raise ConfigError(
            f"latest leads to {path}, which is not below this folder; name the run itself"
        )
    require_removable(path)
    return path


def shown(path: Path) -> str:
    """Return a path for a table."""
    return printable(shown_path(path))


# ---- rm, archive ----


def add_remove(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `navrl runs rm`."""
    parser.add_argument("names", nargs="+", metavar="RUN", help="the folders of runs")
    parser.add_argument("--yes", action="store_true", help="remove without a question")


def remove_runs(options: argparse.Namespace) -> int:
    """Remove runs, all of them or none if one of them cannot be."""
    paths = list({path.resolve(): path for path in map(_removable, options.names)}.values())
    for path in paths:
        RunLock(path).release()  # raises if a process writes the run
    rows = [(shown(path), *_contents(path)) for path in paths]
    show(columns(rows))
    if not options.yes and not _agreed(len(paths)):
        show("nothing is removed\n")
        return 1
    for path in paths:
        remove(path, OUTPUTS)
        show(f"removed {shown(path)}\n")
    return 0


def _contents(path: Path) -> tuple[str, str]:
    content = content_of(path)
    return f"{len(content.files)} files", size(content.size)


def _agreed(number: int) -> bool:
    """Ask on a terminal; raise ConfigError where there is nobody to ask."""
    if not sys.stdin.isatty():
        raise ConfigError(
            "nothing is removed: nobody can be asked here; expected a terminal; add --yes"
        )
    what = "this run" if number == 1 else f"these {number} runs"
    sys.stdout.write(f"remove {what} for good? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def add_archive(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `navrl runs archive`."""
    parser.add_argument("name", metavar="RUN", help="latest, or the folder of a run")
    parser.add_argument(
        "--to",
        type=Path,
        metavar="FILE",
        help=f"a new file; default: <name>{ENDING} in this folder",
    )


def write_archive(options: argparse.Namespace) -> int:
    """Write a run into a file, and print how to restore it."""
    run = path_of(options.name)
    file = Path(f"{run.resolve().name}{ENDING}") if options.to is None else options.to
    require_archive(run, file)
    content = archive(run, file)
    written = size(file.stat().st_size)
    show(f"wrote {shown(file)}: {len(content.files)} files, {size(content.size)} in {written}\n")
    if content.links:
        names = ", ".join(map(printable, content.links[:3]))
        show(f"left out {len(content.links)} links or pipes: {names}\n")
    folder = shown_path(run.absolute().parent)
    show(f"restore it with  {shell_line(['tar', '-xzf', shown_path(file), '-C', folder])}\n")
    return 0
