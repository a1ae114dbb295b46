"""resume=auto: the same command again goes on with its run, and starts it where there is none."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from navrl.config.checks import ConfigError
from navrl.config.compose import dotted_items, to_json
from navrl.config.resumed import LOCAL
from navrl.run.plan import folder_of, leave_nothing
from navrl.run.policies import OUTPUTS
from navrl.storage.checkpoint import checkpoint_files
from navrl.storage.find import find

AUTO = "auto"
_NOT_THE_RUN = ("restarts", "console")  # how it is started and shown, not what it is
_FROM_NOTHING = (
    f"resume={AUTO}",
    "resume=null",
)  # any other resume= makes a branch, which is another run


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
    if not _is_run(folder) or not place.is_dir() or not checkpoint_files(place):
        return None
    return find(str(folder), OUTPUTS)


def _first_overrides(folder: Path) -> list[str]:
    """What the run in `folder` was started with."""
    path = folder / "overrides.yaml"
    return [str(word) for word in OmegaConf.load(path)] if path.is_file() else []


def _said_since(folder: Path, overrides: Sequence[str]) -> list[str]:
    """The overrides that the run's saved configuration does not contain already."""
    known = _last_words(_first_overrides(folder))
    for later in _later_overrides(folder):
        known |= _last_words(later)
    said = _last_words(overrides)
    return [w for key, w in said.items() if known.get(key) != w or _root(w) in LOCAL]


def _later_overrides(folder: Path) -> Iterator[list[str]]:
    """What was said each time when the run went on."""
    path = folder / "resumes.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        with contextlib.suppress(ValueError, LookupError, TypeError):  # a power cut may tear a line
            yield [str(word) for word in json.loads(line)["overrides"]]


def supervised_folder(cfg: DictConfig, fresh: Path, overrides: Sequence[str]) -> Path:
    """Where the child trains: only resume=auto goes on with what is there."""
    if cfg.resume == AUTO:
        return own_folder(fresh, overrides)
    if _is_run(fresh):
        raise ConfigError(
            f"{str(fresh)!r} holds a run already; go on with resume={AUTO}, or choose another folder with "
            "hydra.run.dir=<folder>"
        )
    return fresh


def supervised_command(cfg: DictConfig, folder: Path, divergences: int) -> list[str]:
    """This command for a child that goes on in `folder`, with rates halved as often as training diverged."""
    if cfg.resume not in (None, AUTO) or HydraConfig.get().mode is RunMode.MULTIRUN:
        raise ConfigError(
            f"restarts = {cfg.restarts} goes on with the run of this very command; expected resume=auto and "
            "no -m; change restarts"
        )
    quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
    place = f"hydra.run.dir='{quoted}'"
    last_words = [f"resume={AUTO}", "restarts=0", place]
    if divergences:
        last_words += [f"{key}={rate * 0.5**divergences:g}" for key, rate in _rates(cfg)]
    return [sys.executable, "-m", "navrl.train", *sys.argv[1:], *last_words]


def _rates(cfg: DictConfig) -> Iterator[tuple[str, float]]:
    """Every learning rate of the agent, at the start and at the end."""
    for key, value in dotted_items({"agent": to_json(cfg)["agent"]}):
        if key.endswith("learning_rate") and isinstance(value, int | float):
            yield key, value


def _is_run(folder: Path) -> bool:
    return (folder / "config.yaml").is_file()


def _meaning(overrides: Sequence[str]) -> dict[str, str]:
    said = [word for word in overrides if word not in _FROM_NOTHING]
    return _last_words([word for word in said if _root(word) not in _NOT_THE_RUN])


def _last_words(overrides: Sequence[str]) -> dict[str, str]:
    """Overrides by their key; of several for one key Hydra takes the last."""
    return {word.partition("=")[0].lstrip("+"): word for word in overrides}


def _root(override: str) -> str:
    return override.partition("=")[0].lstrip("+~").partition("@")[0].partition(".")[0]
