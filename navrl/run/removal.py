"""Remove a run, or put it into one file; nothing that is a link is followed."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from pathlib import Path
from typing import NamedTuple

from navrl.config.checks import ConfigError
from navrl.run.directory import point
from navrl.run.lock import RunLock
from navrl.run.stored_runs import is_run_folder, runs_in
from navrl.storage.files import UnsafePath, open_regular, replacing
from navrl.storage.find import latest_run

ENDING = ".tar.gz"
_MOST_LEVELS = 100  # of folders; Python recurses for each


class Content(NamedTuple):
    """The content of a run's folder: relative paths, bytes, and what a copy leaves out."""

    folders: list[Path]
    files: list[Path]
    size: int
    links: list[Path]  # and pipes


def content_of(run: Path) -> Content:
    """Return what lies in the folder itself."""
    found = Content([], [], 0, [])
    size = 0
    for place, folders, files in os.walk(run):  # which enters no link
        if len(Path(place).parts) - len(run.parts) > _MOST_LEVELS:
            raise ConfigError(
                f"{run} is nested too deeply; expected {_MOST_LEVELS} levels at most; use rm -r"
            )
        for name in sorted(folders + files):
            path = Path(place, name)
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                found.folders.append(path.relative_to(run))
            elif stat.S_ISREG(status.st_mode):
                found.files.append(path.relative_to(run))
                size += status.st_size
            else:
                found.links.append(path.relative_to(run))
    return found._replace(size=size)


def require_removable(run: Path) -> None:
    """Raise one sentence about a folder that is no run, or holds more than one."""
    if run.is_symlink():
        raise UnsafePath(run, "a link", "the folder")
    if not run.is_dir() or not is_run_folder(run):
        raise ConfigError(f"{run} is not the folder of a run; expected one; name another")
    inner = next((path for path in run.iterdir() if _holds_runs(path)), None)
    if inner is not None:
        raise ConfigError(
            f"{run} holds other runs, in {inner.name}; expected a single run; move them"
        )
    if Path.cwd().is_relative_to(run.resolve()):
        raise ConfigError(
            f"{run} holds the current folder; expected another run; leave the folder first"
        )


def _holds_runs(folder: Path) -> bool:
    try:
        return not folder.is_symlink() and folder.is_dir() and bool(runs_in(folder))
    except ConfigError:
        return False


def remove(run: Path, outputs: Path) -> None:
    """Remove a run that no process writes; outputs/latest then leads to the newest one that is left."""
    require_removable(run)
    with RunLock(run):  # raises if a process holds it
        latest = latest_run(outputs)
        was_latest = latest is not None and latest == run.resolve()
        shutil.rmtree(run)
    if was_latest:
        _repair(outputs)


def _repair(outputs: Path) -> None:
    """Let outputs/latest lead to the newest run, or remove it."""
    latest = outputs / "latest"
    latest.unlink(missing_ok=True)
    try:
        left = runs_in(outputs)
    except ConfigError:
        return
    point(latest, max(left, key=lambda run: (_began(run), run)))


def _began(run: Path) -> int:
    try:
        return (run / "config.yaml").lstat().st_mtime_ns
    except OSError:
        return 0


def archive(run: Path, file: Path) -> Content:
    """Write a run that no process writes into one compressed file, which must not exist yet."""
    require_archive(run, file)
    with RunLock(run):
        content = content_of(run)
        with replacing(file) as temporary, tarfile.open(temporary, "w:gz", compresslevel=6) as tar:
            for folder in (Path(), *sorted(content.folders)):
                _add_folder(tar, run, folder)
            for member in sorted(content.files):
                _add(tar, run, member)
    return content


def require_archive(run: Path, file: Path) -> None:
    """Raise one sentence unless the archive can be written."""
    require_removable(run)
    if not file.name.endswith(ENDING):
        raise ConfigError(f"--to {file}; expected a name that ends in {ENDING}; change --to")
    if file.exists() or file.is_symlink():
        raise ConfigError(f"--to {file} exists; expected a new file; remove it or change --to")
    if not file.absolute().parent.is_dir():
        raise ConfigError(f"--to {file}; expected a file in an existing folder; change --to")
    if file.parent.resolve().is_relative_to(run.resolve()):
        raise ConfigError(f"--to {file} is in the run itself; expected another folder; change --to")


def _add(tar: tarfile.TarFile, run: Path, member: Path) -> None:
    """Add a file under the run's name, without its owner."""
    with open(open_regular(run / member, os.O_RDONLY), "rb") as file:
        status = os.fstat(file.fileno())
        info = tarfile.TarInfo(str(Path(run.resolve().name) / member))
        info.mtime, info.size = int(status.st_mtime), status.st_size
        tar.addfile(info, file)


def _add_folder(tar: tarfile.TarFile, run: Path, member: Path) -> None:
    info = tarfile.TarInfo(str(Path(run.resolve().name) / member))
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    info.mtime = int((run / member).lstat().st_mtime)
    tar.addfile(info)
