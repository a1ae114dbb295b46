"""From what a run begins: how far it has come, how far it goes, and in which folder."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from navrl.config.checks import ConfigError
from navrl.config.compose import group_option
from navrl.run.options import MOST_ENVS, check_whole
from navrl.run.policies import OUTPUTS
from navrl.storage.checkpoint import load
from navrl.storage.find import find

_SAVED = (
    *("agent", "env", "collector", "curriculum", "loggers", "rng"),
    *("iteration", "frames", "config", "choices"),
)


class Start(NamedTuple):
    """From what a run begins, and how far it goes."""

    cfg: DictConfig
    choices: dict[str, Any]  # the option of every group
    saved: dict[str, Any] | None  # the state to go on from
    origin: str  # where that was read
    done: int  # iterations made before
    total: int  # iterations of the whole run
    frames: int  # made before

    @property
    def total_frames(self) -> int:
        """Frames of the whole run."""
        return self.frames + (self.total - self.done) * self.cfg.num_envs * self.cfg.rollout_steps

    @property
    def keeps_episodes(self) -> bool:
        """Whether the episodes under way go on: they are those of as many envs as there were."""
        return self.saved is not None and self.saved["config"]["num_envs"] == self.cfg.num_envs


class RunComplete(ConfigError):  # noqa: N818 (it says what it is without a suffix)
    """There is nothing left to train."""


def saved_run(checkpoint: Path) -> dict[str, Any]:
    """The state of a run, with all that going on needs."""
    saved = load(checkpoint)
    missing = [name for name in _SAVED if name not in saved]
    if missing:
        raise ConfigError(
            f"{checkpoint} holds no {', '.join(missing)}; expected a run of this version of navrl; start a "
            "new run without resume="
        )
    return saved


def iterations(cfg: DictConfig, saved: dict[str, Any] | None) -> tuple[int, int, int]:
    """Iterations done, in all, and frames done; raises about what would only fail hours later."""
    check_whole(cfg, "num_envs", "eval_episodes", least=1, most=MOST_ENVS)
    check_whole(cfg, "rollout_steps", "total_frames", least=1)
    check_whole(cfg, "seed", "eval_seed", "eval_every", least=0)
    if cfg.eval_async not in (True, False) or (cfg.eval_async and not cfg.eval_every):
        raise ConfigError(
            f"eval_async = {cfg.eval_async} with eval_every = {cfg.eval_every}; expected false, or true and "
            "some iterations between evaluations; change eval_async or eval_every"
        )
    if "opponent" in cfg:
        _check_examination(cfg)
    frames_per_iteration = cfg.num_envs * cfg.rollout_steps
    done, frames = (0, 0) if saved is None else (saved["iteration"], saved["frames"])
    total = done + math.ceil((cfg.total_frames - frames) / frames_per_iteration)
    if done >= total:
        raise RunComplete(
            f"the run is complete at {frames} frames; expected total_frames above that to go on; "
            f"add total_frames={2 * frames}"
        )
    return done, total, frames


def _check_examination(cfg: DictConfig) -> None:
    """Raise about opponents and openings that the final evaluation would not find."""
    if isinstance(cfg.eval_opponents, str):
        raise ConfigError(
            f"eval_opponents = {cfg.eval_opponents}; expected a list; write eval_opponents="
            f"[{cfg.eval_opponents}]"
        )
    for opponent in cfg.eval_opponents:
        if "checkpoint" in group_option(
            "opponent", opponent
        ):  # who "latest" is changes while the run saves
            raise ConfigError(
                f"eval_opponents = {list(cfg.eval_opponents)}; expected scripted pilots; measure against a "
                "policy with `navrl evaluate opponent=checkpoint`; change eval_opponents"
            )
    if cfg.eval_scenario is not None:
        group_option("scenario", cfg.eval_scenario)


@contextlib.contextmanager
def naming_changes(cfg: DictConfig) -> Iterator[None]:
    """A complaint that the saved episodes do not fit names the options which change them now."""
    try:
        yield
    except ValueError as error:
        parts = re.findall(
            r"\$\{(\w+)", str(OmegaConf.to_container(cfg.env))
        )  # ${opponent} and others
        said = HydraConfig.get().overrides.task
        changes = [word for word in said if re.split(r"[.=]", word)[0] in {"env", *parts}]
        blamed = [word for word in changes if not word.startswith("scenario")]  # has no memory
        if not blamed:
            raise
        raise ConfigError(
            f"{' '.join(blamed)} changes what an env remembers of its episodes; expected what the run was "
            f"saved with; leave {' '.join(blamed)} out, or start a new run without resume="
        ) from error


def folder_of(checkpoint: Path, fresh: Path) -> Path:
    """The run's own folder for its newest checkpoint; a fresh one for a branch or a lone file."""
    run = checkpoint.absolute().parents[1]
    in_run = checkpoint.absolute().parent.name == "checkpoints" and (run / "config.yaml").is_file()
    if not in_run or find(str(run), OUTPUTS).absolute() != checkpoint.absolute():
        return fresh
    leave_nothing(fresh)  # Hydra made it for a new run
    return run


def leave_nothing(path: Path) -> None:
    """Nothing starts there: remove the folder that Hydra made, and what of outputs/ is empty without it."""
    outputs = OUTPUTS.absolute()
    with contextlib.suppress(OSError):  # a folder that holds anything stays, and all above it
        path.rmdir()
        for folder in path.absolute().parents:
            if folder.is_relative_to(outputs):
                folder.rmdir()


def latest_link(path: Path) -> Path | None:
    """outputs/latest for single runs in outputs/; sweeps and folders elsewhere leave it alone."""
    single = HydraConfig.get().mode is not RunMode.MULTIRUN
    inside = path.absolute().is_relative_to(OUTPUTS.absolute())
    return OUTPUTS / "latest" if single and inside else None
