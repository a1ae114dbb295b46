"""The folder in which torch's compiler keeps code that later runs execute: nobody else may write there.

By itself torch takes a name in /tmp that anybody can guess and fill beforehand.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
import warnings
from pathlib import Path

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
_TEMPORARY = "navrl-torch-"  # how the name of a temporary folder begins


def use_private_cache() -> None:
    """Set the compiler's folder, unless the user has; torch reads it as soon as TensorDict is imported."""
    if os.environ.get(VARIABLE):
        return
    try:
        folder = str(_made_private(own_folder()))
    except (OSError, RuntimeError) as error:
        warnings.warn(
            f"compiled code is not kept for later runs: {error}; expected a folder that nobody else can "
            f"write to; set XDG_CACHE_HOME or {VARIABLE}",
            stacklevel=2,
        )
        folder = tempfile.mkdtemp(prefix=_TEMPORARY)
        atexit.register(_remove, folder, os.getpid())
    os.environ[VARIABLE] = folder


def own_folder() -> Path:
    """Return navrl/torch below the user's cache directory."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # then it is to be ignored, says the XDG specification
        base = Path.home() / ".cache"
    return Path(os.path.realpath(base), "navrl", "torch")


def is_kept() -> bool:
    """Return whether later runs find what is compiled now."""
    return not Path(os.environ.get(VARIABLE, "")).name.startswith(_TEMPORARY)


def require_private(folder: Path) -> None:
    """Raise PermissionError if another user can write into the folder, or put another one in its place."""
    for place in (folder, *folder.parents):
        found = place.lstat()
        strangers = stat.S_IWOTH if place in folder.parents else stat.S_IWOTH | stat.S_IWGRP
        shared = found.st_mode & strangers and not (
            place in folder.parents and found.st_mode & stat.S_ISVTX
        )
        if not stat.S_ISDIR(found.st_mode):
            raise PermissionError(f"{place} is no folder")
        if found.st_uid not in ({os.geteuid()} if place == folder else {0, os.geteuid()}):
            raise PermissionError(f"{place} belongs to another user")
        if shared:
            raise PermissionError(f"others can write to {place}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be written")


def _made_private(folder: Path) -> Path:
    for place in reversed((folder, *folder.parents)):
        if not place.exists():
            place.mkdir(mode=0o700, exist_ok=True)  # another process may make it now
    require_private(folder)
    return folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a fork has the same exit handlers
        shutil.rmtree(folder, ignore_errors=True)
