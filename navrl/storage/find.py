"""Find a checkpoint by `latest`, `best`, a run, a file or zoo:<name>.

All but a named file and the policies that come with navrl are read and checked.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from navrl.config.checks import did_you_mean
from navrl.storage.info import BEST, LATEST, checkpoint_files

if TYPE_CHECKING:
    from navrl.storage.info import CheckpointInfo

# Of this working directory; runs go there unless hydra.run.dir says otherwise.
OUTPUTS = Path("outputs")
ZOO = "zoo:"  # before the name of a policy that comes with navrl
ZOO_FOLDER = Path(__file__).resolve().parents[1] / "zoo"
_FOLDER = "checkpoints"
# outputs/<run>, <env>-<agent>/<run>, and sweeps
_DEPTHS = ("*", "*/*", "*/*/*")
_MAX_NAMED = 3
_MOST_OF_A_NAME = 4096  # characters


class CheckpointNotFound(FileNotFoundError):  # noqa: N818 (like FileNotFound)
    """No intact checkpoint at the place that was named."""


def find(reference: str, outputs: Path) -> Path:
    """Return the checkpoint meant by `latest`, `best`, a run, a checkpoints directory, a file or zoo:<name>.

    A path may be relative to `outputs`; `<run>/checkpoints/best` is the best one of that run.
    """
    if reference.startswith(ZOO):
        return find_shipped(reference.removeprefix(ZOO))
    if reference in (LATEST, BEST):
        found = _in_some_run(reference, outputs)
        if found is None:
            raise CheckpointNotFound(
                f"no run below {outputs} has an intact checkpoint; train first, or name a run or a file"
            )
        return found
    for place in (Path(reference), outputs / reference):
        if reference and os.path.exists(place):
            return _at(place, outputs)
    raise CheckpointNotFound(
        f"no run, checkpoints directory or file is called {reference!r}, neither here nor in "
        f"{outputs}; {_nearby(reference, outputs)}"
    )


def shipped() -> list[str]:
    """Return the names of the policies that come with navrl."""
    return sorted(path.stem for path in ZOO_FOLDER.glob("*.ckpt"))


def is_shipped(reference: str) -> bool:
    """Return whether this is zoo:<name> of a policy that comes with navrl."""
    return reference.startswith(ZOO) and reference.removeprefix(ZOO) in shipped()


def find_shipped(name: str) -> Path:
    """Return the file of a policy that comes with navrl."""
    names = shipped()
    if name not in names:
        raise CheckpointNotFound(
            f"no policy called {name!r} comes with navrl{did_you_mean(name, names)}; "
            f"available: {', '.join(names)} (see: navrl zoo)"
        )
    return ZOO_FOLDER / f"{name}.ckpt"


def _at(place: Path, outputs: Path) -> Path:
    """Return the checkpoint at an existing path."""
    is_file = os.path.isfile(place)
    if is_file and place.name not in (LATEST, BEST):
        return place
    folder, which = (place.parent, place.name) if is_file else (place, LATEST)
    found = _choose(folder, which)
    if found is None:
        damaged = len(_files(folder))
        others = (
            f"{damaged} damaged; name another run or file"
            if damaged
            else _nearby(str(place), outputs)
        )
        raise CheckpointNotFound(f"no intact checkpoint in {folder}; {others}")
    return found


def _in_some_run(which: str, outputs: Path) -> Path | None:
    """Look in the run that outputs/latest shows, else in the run saved to most recently."""
    shown = latest_run(outputs)
    found = _choose(shown, which) if shown is not None else None
    if found is not None:
        return found
    others = (_choose(run, which) for run in _runs(outputs) if run != shown)
    found = next((path for path in others if path is not None), None)
    if shown is not None and found is not None:
        text = f"{shown}, the newest run, has no intact checkpoint; {found} is taken"
        warnings.warn(text, RuntimeWarning, stacklevel=1)
    return found


def _choose(folder: Path, which: str) -> Path | None:
    """Return the newest or best intact checkpoint of a run; the pointer files are not trusted."""
    if which == LATEST:
        return next((path for path, _ in _intact(folder)), None)
    intact = list(_intact(folder))
    scored = [(path, info.rank) for path, info in intact if info.rank is not None]
    if intact and not scored:
        raise CheckpointNotFound(
            f"no checkpoint in {folder} has a score, so none is the best one; ask for 'latest'"
        )
    return max(scored, key=lambda pair: pair[1])[0] if scored else None


def _intact(folder: Path) -> Iterator[tuple[Path, CheckpointInfo]]:
    from navrl.storage.checkpoint import verify_or_warn  # and with it torch

    for path in _files(folder):
        info = verify_or_warn(path)
        if info is not None:
            yield path, info


def _files(folder: Path) -> list[Path]:
    """Return the checkpoint files of a run or checkpoints directory, newest first, intact or not."""
    inner = folder / _FOLDER
    folder = inner if inner.is_dir() else folder
    return checkpoint_files(folder) if folder.is_dir() else []


def find_place(reference: str, outputs: Path) -> Path:
    """Return the run or file meant by `latest`, `best`, zoo:<name> or a path, as `find` reads it."""
    if reference.startswith(ZOO):
        return find(reference, outputs)
    run = latest_run(outputs) if reference == LATEST else None
    if run is not None:
        return run
    if reference == LATEST and not _runs(outputs):
        raise CheckpointNotFound(
            f"there is no latest run below {outputs}; train first, or name a run"
        )
    paths = (Path(reference), outputs / reference) if reference not in (LATEST, BEST) else ()
    for path in paths:
        if path.exists():
            return path
    return find(reference, outputs).parent.parent  # raises if there is no such run


def find_files(
    reference: str, outputs: Path, folder: str, list_files: Callable[[Path], list[Path]]
) -> list[Path]:
    """Return the files in that folder of a run, or the one file that the reference names."""
    place = find_place(reference, outputs)
    if place.is_file():  # a pointer file, latest or best, stands for the checkpoint that it names
        return [find(reference, outputs) if place.name in (LATEST, BEST) else place]
    for inside in (place / folder, place):
        if inside.is_dir() and (found := list_files(inside)):
            return found
    raise ValueError(
        f"{place} holds no {folder}; expected a run or its folder {folder}; name another"
    )


def latest_run(outputs: Path) -> Path | None:
    """Return the directory that outputs/latest is a link to, or names in its first line."""
    link = outputs / LATEST
    if os.path.isfile(link):
        with link.open(encoding="utf-8", errors="replace") as file:
            name = file.readline(_MOST_OF_A_NAME).strip()
        link = outputs / name if name else link
    return link.resolve() if os.path.isdir(link) else None


def _runs(outputs: Path) -> list[Path]:
    """Return the runs with checkpoints, most recently saved first."""
    folders = {
        folder.resolve() for depth in _DEPTHS for folder in outputs.glob(f"{depth}/{_FOLDER}")
    }
    saved_at = {
        folder.parent: max(path.stat().st_mtime_ns for path in files)
        for folder in folders
        if (files := checkpoint_files(folder))
    }
    return sorted(saved_at, key=lambda run: (saved_at[run], run), reverse=True)


def _nearby(reference: str, outputs: Path) -> str:
    """Return a sentence with the runs that the user may have meant."""
    root = outputs.resolve()
    names = [str(run.relative_to(root)) for run in _runs(outputs) if run.is_relative_to(root)]
    if not names:
        return "there are no runs with checkpoints yet"
    by_word = {name: name for name in names} | {Path(name).name: name for name in reversed(names)}
    close = difflib.get_close_matches(reference, by_word, n=_MAX_NAMED, cutoff=0.5)
    if close:
        meant = dict.fromkeys(by_word[word] for word in close)
        return f"did you mean {' or '.join(map(repr, meant))}?"
    newest = ", ".join(map(repr, names[:_MAX_NAMED]))
    return f"the newest of {len(names)} runs below {outputs}: {newest}"
