"""The plan of a run: fresh, resumed or branched; how far it has come, how far it goes, in which folder."""

from __future__ import annotations

import contextlib
import io
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from navrl.config.checks import ConfigError, require_flag, require_whole
from navrl.config.compose import evaluated, group_option
from navrl.config.resumed import resumed
from navrl.config.stored import LOCAL, words_of
from navrl.contracts import Env
from navrl.envs.core.compiling import EAGER_ITERATIONS, compilations
from navrl.ranks import Ranks, ranks_of, world
from navrl.run.device import MOST_ENVS, own_threads
from navrl.run.early_stop import NEVER, stop_reason
from navrl.run.lock import RunLock
from navrl.run.random_state import check_rng_state
from navrl.run.status import has_finished
from navrl.run.stored_files import Repeated, files_read, repeated, require_typed
from navrl.run.transfer import TrainedPolicy, read_opponent, read_policy, resolve_opponent
from navrl.storage.checkpoint import check_policy_state, load
from navrl.storage.files import parse_json, read_text
from navrl.storage.find import OUTPUTS, find
from navrl.storage.info import checkpoint_files
from navrl.storage.schema import (
    ANYTHING,
    TENSOR,
    Each,
    Either,
    Having,
    Named,
    check,
    loading,
    text,
    whole,
)

AUTO = "auto"
_PARTS = {
    **dict.fromkeys(("agent", "env", "collector", "curriculum"), Named(ANYTHING)),
    "arithmetic": Named(Either(text(".{0,200}", "a short text"), whole())),
    "loggers": Named(Named(ANYTHING)),
    "evaluations": Each(
        {"iteration": whole(), "frames": whole(), "version": whole(), "weights": Named(TENSOR)}
    ),
    "scores": Each(0.0),
}
_SAVED = (
    *("agent", "env", "collector", "curriculum", "loggers", "rng"),
    *("iteration", "frames", "config", "choices"),
)
_MOST_SEED = 1 << 62  # iterations are added, and a tensor holds the sum
_LONGEST_LINE = 1 << 20  # characters of a resume that is read, of which one takes some 20,000
_NOT_THE_RUN = ("restarts", "console", "ranks")  # how a run is started and shown, not what it is
# Any other resume= makes a branch, which is another run.
_FROM_NOTHING = (f"resume={AUTO}", "resume=null")


class RunComplete(ConfigError):  # noqa: N818 (it says what it is without a suffix)
    """The error of a run that has nothing left to train."""


ALONE = Ranks()


class Plan(NamedTuple):
    """The beginning and the end of a run."""

    cfg: DictConfig
    choices: dict[str, Any]  # the chosen option of every group
    lock: RunLock  # of the run directory
    overrides: list[str]  # of the command line
    saved: dict[str, Any] | None  # the state to continue from
    origin: str  # the file that holds it
    done: int  # iterations made before
    total: int  # iterations of the whole run
    frames: int  # made before
    started: float = 0.0  # on time.monotonic's clock
    ranks: Ranks = ALONE
    init: TrainedPolicy | None = None  # with whose weights a new run begins
    opponent: TrainedPolicy | None = None  # that no longer learns

    @property
    def path(self) -> Path:
        """Return the run directory."""
        return self.lock.path

    @property
    def total_frames(self) -> int:
        """Return the frames of the whole run."""
        return self.frames + (self.total - self.done) * self.cfg.num_envs * self.cfg.rollout_steps

    @property
    def compiles(self) -> bool:
        """Return whether anything is to be compiled."""
        return str(self.cfg.compile) not in ("off", "False")

    @property
    def unsettled(self) -> int:
        """Return how many of the next iterations run eager or compile: their times foretell nothing."""
        eager = EAGER_ITERATIONS if self.compiles else 0
        return max(1, eager + 1 - self.done)

    @property
    def repeated(self) -> Repeated:
        """Return the words that name the files of this run, for commands that continue or evaluate it."""
        return repeated(self.cfg, self.choices)

    @property
    def keeps_episodes(self) -> bool:
        """Return whether the episodes under way continue: saved, for as many envs as there are now."""
        if self.saved is None or not self.saved["env"]:
            return False
        return bool(self.saved["config"]["num_envs"] == self.cfg.num_envs)

    @property
    def latest_link(self) -> Path | None:
        """Return outputs/latest for a single run in outputs/; sweeps and folders elsewhere leave it alone."""
        single = HydraConfig.get().mode is not RunMode.MULTIRUN
        inside = self.path.absolute().is_relative_to(OUTPUTS.absolute())
        return OUTPUTS / "latest" if single and inside else None

    def score(self, env: Env, metrics: Mapping[str, float]) -> float | None:
        """Return the number by which `best` is chosen within a stage.

        It is of the evaluation if the loop waits for one, else of the training episodes.
        """
        source = "eval" if self.cfg.eval_every and not self.cfg.eval_async else "episode"
        return metrics.get(f"{source}/{env.objective}")

    @contextlib.contextmanager
    def explained_misfits(self) -> Iterator[None]:
        """Name the options that changed, if the saved episodes do not fit the env."""
        try:
            yield
        except ValueError as error:
            # ${opponent} and others
            groups = re.findall(r"\$\{(\w+)", str(OmegaConf.to_container(self.cfg.env)))
            changes = [
                word for word in self.overrides if re.split(r"[.=]", word)[0] in {"env", *groups}
            ]
            blamed = [word for word in changes if not word.startswith("scenario")]  # has no memory
            if not blamed:
                raise
            raise ConfigError(
                f"{' '.join(blamed)} changes what an env remembers of its episodes; expected what the run "
                f"was saved with; leave {' '.join(blamed)} out, or start a new run without resume="
            ) from error


@contextlib.contextmanager
def plan_run(
    cfg: DictConfig, begun: Callable[[Path], object] = lambda _: None
) -> Iterator[Plan | None]:
    """Plan this command's run, which is locked while open; None if resume=auto finds it finished.

    One that was stopped in its final evaluation has no iteration left, and is only evaluated.

    `begun` is called with its directory.
    """
    started = time.monotonic()
    compilations.clear()  # of an earlier job in this process
    require_flag("profile", cfg.profile)
    hydra = HydraConfig.get()
    overrides, choices = list(hydra.overrides.task), dict(hydra.runtime.choices)
    automatic, saved = cfg.resume == AUTO, None
    cfg = evaluated(cfg)
    with own_threads(), contextlib.ExitStack() as locks:
        lock, checkpoint = _locked(cfg, Path(hydra.runtime.output_dir), overrides, locks)
        if checkpoint is not None:
            saved = _load_run(checkpoint)
            new = new_overrides(lock.path, overrides) if automatic else overrides
            typed = files_read(cfg)
            cfg = resumed(saved["config"], saved["choices"], cfg, new, choices)
            choices = saved["choices"]
            require_typed(cfg, typed, repeated(cfg, choices).train)
        resolve_opponent(cfg)
        try:
            progress = _iterations(cfg, saved)
        except RunComplete as complete:
            if not automatic or saved is None:
                raise
            if has_finished(lock.path):
                sys.stdout.write(f"{complete}\n")
                begun(lock.path)
                yield None
                return
            progress = (saved["iteration"], saved["iteration"], saved["frames"])
        if saved is not None and "shards" not in by_key(overrides):
            cfg.shards = math.lcm(
                cfg.shards or 1, world()[1]
            )  # so that any number of ranks may go on
        ranks = ranks_of(cfg.num_envs, cfg.shards)
        cfg.shards = ranks.shards
        begun(lock.path)
        origin = str(checkpoint or "nothing")
        # Here, so that all ranks get what rank 0 has read.
        init = read_policy(str(cfg.init)) if saved is None and cfg.init is not None else None
        opponent = read_opponent(cfg)
        parts = (overrides, saved, origin, *progress, started, ranks, init, opponent)
        yield Plan(cfg, choices, lock, *parts)


@contextlib.contextmanager
def removed_on_error() -> Iterator[None]:
    """Remove the empty folder that Hydra made, if the run does not begin."""
    path = Path(HydraConfig.get().runtime.output_dir)
    try:
        yield
    except (ValueError, OSError):
        remove_if_empty(path)
        raise
    except KeyboardInterrupt as stop:
        remove_if_empty(path)
        stop.args = ("nothing was trained, nothing saved",)
        raise


def remove_if_empty(path: Path) -> None:
    """Remove a folder that holds nothing, and the folders of outputs/ that are empty without it."""
    outputs = OUTPUTS.absolute()
    with contextlib.suppress(OSError):  # a folder that holds anything stays, and all above it
        path.rmdir()
        for folder in path.absolute().parents:
            if folder.is_relative_to(outputs):
                folder.rmdir()


def _load_run(checkpoint: Path) -> dict[str, Any]:
    """Return the state of a run, or raise if something that continuing needs is missing."""
    saved = load(checkpoint)
    check_run_state(saved, str(checkpoint))
    return saved


def check_run_state(saved: dict[str, Any], origin: str) -> None:
    """Raise unless the state is that of a run; env, agent and the like check their own parts of it."""
    missing = [name for name in _SAVED if name not in saved]
    if missing:
        raise ConfigError(
            f"{origin} holds no {', '.join(missing)}; expected a run of this version of navrl; start a "
            "new run without resume="
        )
    check_policy_state(saved, origin)
    with loading(origin):
        check(saved, Having({"config": Having({"num_envs": whole(1)})}, _PARTS), "checkpoint")
        check(saved["frames"], whole(saved["iteration"]), "frames")
        check_rng_state(saved["rng"], "rng")


def _iterations(cfg: DictConfig, saved: dict[str, Any] | None) -> tuple[int, int, int]:
    """Return iterations done, iterations in all, and frames done."""
    _check_options(cfg)
    frames_per_iteration = cfg.num_envs * cfg.rollout_steps
    done, frames = (0, 0) if saved is None else (saved["iteration"], saved["frames"])
    total = done + math.ceil((cfg.total_frames - frames) / frames_per_iteration)
    early = stop_reason(cfg, [] if saved is None else saved.get("scores", []))
    if early:
        raise RunComplete(
            f"the run has ended early: {early}; expected other options of stop_when to go on; add {NEVER}"
        )
    if done >= total:
        raise RunComplete(
            f"the run is complete at {frames} frames; expected total_frames above that to go on; "
            f"add total_frames={2 * frames}"
        )
    return done, total, frames


def _check_options(cfg: DictConfig) -> None:
    """Raise about options that would only fail hours later."""
    for name in ("num_envs", "eval_episodes"):
        require_whole(name, cfg[name], 1, MOST_ENVS)
    for name in ("rollout_steps", "total_frames"):
        require_whole(name, cfg[name], 1)
    for name in ("seed", "eval_seed"):
        require_whole(name, cfg[name], 0, _MOST_SEED)
    for name in ("eval_every", "restarts"):
        require_whole(name, cfg[name], 0)
    if cfg.eval_async not in (True, False) or (cfg.eval_async and not cfg.eval_every):
        raise ConfigError(
            f"eval_async = {cfg.eval_async} with eval_every = {cfg.eval_every}; expected false, or true and "
            "some iterations between evaluations; change eval_async or eval_every"
        )
    if "opponent" in cfg:
        _check_final_evaluation(cfg)


def _check_final_evaluation(cfg: DictConfig) -> None:
    """Raise about opponents and openings that the final evaluation would not find."""
    if not OmegaConf.is_list(cfg.eval_opponents):
        raise ConfigError(
            f"eval_opponents = {cfg.eval_opponents}; expected a list; write eval_opponents="
            f"[{cfg.eval_opponents}]"
        )
    for opponent in cfg.eval_opponents:
        # "latest" is another checkpoint as soon as the run saves
        if "checkpoint" in group_option("opponent", opponent):
            raise ConfigError(
                f"eval_opponents = {list(cfg.eval_opponents)}; expected scripted pilots; measure against a "
                "policy with `navrl evaluate opponent=checkpoint`; change eval_opponents"
            )
    if cfg.eval_scenario is not None:
        group_option("scenario", cfg.eval_scenario)


# ---- which run: a new one, the run of this very command (resume=auto), or a run that is named ----


def _locked(
    cfg: DictConfig, fresh: Path, overrides: Sequence[str], locks: contextlib.ExitStack
) -> tuple[RunLock, Path | None]:
    """Lock the run's folder; return the lock, and the checkpoint to continue from if any.

    Looks under the lock: before, another process may save a newer checkpoint.
    """
    if cfg.resume is None:
        return locks.enter_context(RunLock(fresh)), None
    if cfg.resume == AUTO:
        lock = locks.enter_context(RunLock(own_folder(fresh, overrides)))
        return lock, _newest_in(lock.path)
    while True:
        checkpoint = find(str(cfg.resume), OUTPUTS)
        run = _run_of(checkpoint)
        lock = locks.enter_context(RunLock(run or fresh))
        if run is None:
            return lock, checkpoint
        if find(str(cfg.resume), OUTPUTS) == checkpoint and _run_of(checkpoint) == run:
            remove_if_empty(fresh)  # Hydra made it for a new run
            return lock, checkpoint
        lock.release()


def found_run(cfg: DictConfig) -> tuple[Path, Mapping[str, Any]]:
    """Return the folder in which this command trains, and its saved configuration, {} without one."""
    hydra = HydraConfig.get()
    fresh = Path(hydra.runtime.output_dir)
    if cfg.resume is None:
        return fresh, {}
    if cfg.resume == AUTO:
        folder = own_folder(fresh, list(hydra.overrides.task))
        checkpoint = _newest_in(folder)
    else:
        checkpoint = find(str(cfg.resume), OUTPUTS)
        folder = _run_of(checkpoint) or fresh
    return folder, {} if checkpoint is None else _load_run(checkpoint)["config"]


def own_folder(fresh: Path, overrides: Sequence[str]) -> Path:
    """Return the folder of the run that this command is about.

    It is the one that hydra.run.dir names, else the newest of those beside `fresh` that were begun with the
    same options, else `fresh`.
    """
    hydra = HydraConfig.get()
    named = any(word.lstrip("+").startswith("hydra.run.dir") for word in hydra.overrides.hydra)
    if named or hydra.mode is RunMode.MULTIRUN or is_run(fresh):
        return fresh
    siblings = sorted(fresh.parent.iterdir(), reverse=True) if fresh.parent.is_dir() else []
    for folder in siblings:  # their names begin with the date
        if is_run(folder) and same_run(first_overrides(folder), overrides):
            remove_if_empty(fresh)
            return folder
    return fresh


def _run_of(checkpoint: Path) -> Path | None:
    """Return the run of which this is the newest checkpoint; None for a branch or a lone file."""
    run = checkpoint.absolute().parents[1]
    in_run = checkpoint.absolute().parent.name == "checkpoints" and is_run(run)
    newest = in_run and find(str(run), OUTPUTS).absolute() == checkpoint.absolute()
    return run if newest else None


def _newest_in(folder: Path) -> Path | None:
    """Return the run's newest intact checkpoint, None before its first; raise if all are damaged."""
    checkpoints = folder / "checkpoints"
    if not is_run(folder) or not checkpoints.is_dir() or not checkpoint_files(checkpoints):
        return None
    return find(str(folder), OUTPUTS)


def new_overrides(folder: Path, overrides: Sequence[str]) -> list[str]:
    """Return the overrides that the run's saved configuration does not contain already."""
    known = by_key(first_overrides(folder))
    for later in _later_overrides(folder):
        known |= by_key(later)
    found = by_key(overrides)
    return [w for key, w in found.items() if known.get(key) != w or root_of(w) in LOCAL]


def first_overrides(folder: Path) -> list[str]:
    """Return the overrides that the run in `folder` was started with."""
    path = folder / "overrides.yaml"
    return words_of(read_text(path), path) if path.exists() else []


def _later_overrides(folder: Path) -> Iterator[list[str]]:
    """Yield the overrides of every resume of the run in `folder`."""
    path = folder / "resumes.jsonl"
    for line in io.StringIO(read_text(path) if path.exists() else ""):
        if len(line) <= _LONGEST_LINE:
            with contextlib.suppress(
                ValueError, LookupError, TypeError
            ):  # a power cut may tear a line
                yield [str(word) for word in parse_json(line)["overrides"]]


def is_run(folder: Path) -> bool:
    """Return whether a run was begun in this folder."""
    return (folder / "config.yaml").is_file()


def same_run(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether two command lines describe the same run."""
    return _described(first) == _described(second)


def _described(overrides: Sequence[str]) -> dict[str, str]:
    words = [word for word in overrides if word not in _FROM_NOTHING]
    return by_key([word for word in words if root_of(word) not in _NOT_THE_RUN])


def by_key(overrides: Sequence[str]) -> dict[str, str]:
    """Return the overrides by key; of several for one key Hydra takes the last."""
    return {word.partition("=")[0].lstrip("+"): word for word in overrides}


def root_of(override: str) -> str:
    return override.partition("=")[0].lstrip("+~").partition("@")[0].partition(".")[0]
