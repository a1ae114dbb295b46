"""resume=auto: the same command again goes on with its run, and starts it where there is none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from navrl.checkpoint import find
from navrl.checkpoint.directory import checkpoints
from navrl.config import ConfigError
from navrl.start import folder_of, leave_nothing
from navrl.subject import OUTPUTS

AUTO = "auto"
_NOT_THE_RUN = ("resume", "restarts", "console")  # how it is started and shown, not what it is
_FROM_HERE = ("logger", "checkpoint", "collector")  # are never taken from a file


def origin(
    cfg: DictConfig, fresh: Path, overrides: Sequence[str]
) -> tuple[Path, Path | None, Sequence[str]]:
    """The run's folder, the checkpoint to go on from if there is one, and the overrides that it lacks."""
    if cfg.resume is None:
        return fresh, None, overrides
    if cfg.resume == AUTO:
        folder = own_folder(fresh, overrides)
        return folder, _newest_in(folder), _said_since(folder, overrides)
    checkpoint = find(str(cfg.resume), OUTPUTS)
    return folder_of(checkpoint, fresh), checkpoint, overrides


def own_folder(fresh: Path, overrides: Sequence[str]) -> Path:
    """The folder of the run that this command is about.

    It is the one that hydra.run.dir names, else the newest of those beside `fresh` that were begun with the
    same options, else `fresh`.
    """
    hydra = HydraConfig.get()
    named = any(word.lstrip("+").startswith("hydra.run.dir") for word in hydra.overrides.hydra)
    if named or hydra.mode is RunMode.MULTIRUN or _is_run(fresh):
        return fresh
    siblings = sorted(fresh.parent.iterdir(), reverse=True) if fresh.parent.is_dir() else []
    for folder in siblings:  # their names begin with the date
        if _is_run(folder) and _meaning(_first_overrides(folder)) == _meaning(overrides):
            leave_nothing(fresh)
            return folder
    return fresh


def _newest_in(folder: Path) -> Path | None:
    """The run's newest intact checkpoint; None if it has not saved yet. That all are damaged is an error."""
    place = folder / "checkpoints"
    if not _is_run(folder) or not place.is_dir() or not checkpoints(place):
        return None
    return find(str(folder), OUTPUTS)


def _first_overrides(folder: Path) -> list[str]:
    """What the run in `folder` was started with."""
    path = folder / "overrides.yaml"
    return [str(word) for word in OmegaConf.load(path)] if path.is_file() else []


def _said_since(folder: Path, overrides: Sequence[str]) -> list[str]:
    """The overrides that the run's saved configuration does not contain already."""
    first = set(_first_overrides(folder))
    return [word for word in overrides if word not in first or _root(word) in _FROM_HERE]


def supervised_command(cfg: DictConfig, folder: Path) -> list[str]:
    """This command for a child that goes on in `folder`, as often as it is started."""
    if cfg.resume not in (None, AUTO) or HydraConfig.get().mode is RunMode.MULTIRUN:
        raise ConfigError(
            f"restarts = {cfg.restarts} goes on with the run of this very command; expected resume=auto and "
            "no -m; change restarts"
        )
    quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
    place = f"hydra.run.dir='{quoted}'"
    last_words = [f"resume={AUTO}", "restarts=0", place]
    return [sys.executable, "-m", "navrl.train", *sys.argv[1:], *last_words]


def _is_run(folder: Path) -> bool:
    return (folder / "config.yaml").is_file()


def _meaning(overrides: Sequence[str]) -> list[str]:
    return sorted(word for word in overrides if _root(word) not in _NOT_THE_RUN)


def _root(override: str) -> str:
    return override.partition("=")[0].lstrip("+~").partition("@")[0].partition(".")[0]
