"""The plan of a search: its folder, its space, and the trainings of a trial; study.json keeps it."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from navrl.config.checks import ConfigError, require, require_choice, require_whole
from navrl.config.compose import compose
from navrl.storage.files import make_directory, open_regular, read_json, to_json, write_atomically
from navrl.tune.space import Space, read_space, space_for, without_schedules, written_value

STUDIES = Path("multirun/tune")
REPORTS = 10  # tenths of a training, of which each reports a value to the pruner
SILENT = 1  # but the first: every policy begins alike
PRUNERS = ("median", "hyperband", "none")
_FILE, _TURN, _TRIALS = "study.json", ".turn", "trials"
# Words that the search itself adds to the command of a training.
_OWN = ("resume", "restarts", "hydra.run.dir", "hydra.sweep.dir")
_LONGEST_NAME = 80
_CREDENTIALS = re.compile(r"//[^/]*@")  # of a database; not for what others may read


class Options(NamedTuple):
    """The options of the command line."""

    study: str | None
    space: str | None
    overrides: list[str]  # of navrl train
    trials: int
    seeds: int
    pruner: str
    cost: bool
    storage: str | None
    config_dir: Path | None
    population: int = 0  # members that train side by side with --pbt; 0: a search by Optuna
    interval: int | None = None  # frames of a generation with --pbt


class Plan(NamedTuple):
    """A search that is ready to begin, or to go on."""

    options: Options
    folder: Path
    space: Space
    seeds: tuple[int, ...]  # of the trainings of every trial
    objective: str  # the statistic of the env that is searched for
    metric: str  # of metrics.jsonl, which the pruner reads
    total_frames: int  # of one training, in whole iterations
    interval: int = 0  # frames of a generation with --pbt, in whole iterations

    @property
    def name(self) -> str:
        """Return the name of the study in its storage."""
        return self.folder.name

    @property
    def steps(self) -> int:
        """Return the number of values that a whole trial reports."""
        return REPORTS * len(self.seeds)

    @property
    def generations(self) -> int:
        """Return how often all members of a population train on."""
        return math.ceil(self.total_frames / self.interval)

    @property
    def storage_shown(self) -> str:
        """Return the storage without user and password; empty for the file in the folder."""
        return _CREDENTIALS.sub("//", self.options.storage or "")

    def trial_folder(self, number: int) -> Path:
        """Return the folder of a trial, with a folder for each of its trainings."""
        return self.folder / _TRIALS / f"{number:04d}"

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other worker is choosing its next trial; a killed one gives its turn back."""
        descriptor = open_regular(self.folder / _TURN, os.O_RDWR | os.O_CREAT)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def plan_search(options: Options) -> Plan:
    """Return the plan of a search, new or found in its folder; raise one sentence about wrong options."""
    _check(options)
    config = compose("train", options.overrides)
    for name in ("num_envs", "rollout_steps", "total_frames"):
        require_whole(name, config[name], least=1)
    require_whole("seed", config.seed, least=0)
    space = read_space(options.space or space_for(config.agent.name), options.overrides)
    iteration = config.num_envs * config.rollout_steps
    by_default = f"{config.env.name}-{config.agent.name}{'-pbt' if options.population else ''}"
    plan = Plan(
        options=options,
        folder=STUDIES / (options.study or by_default),
        space=space,
        seeds=tuple(range(config.seed, config.seed + options.seeds)),
        objective=str(config.env.objective),
        metric=f"{'eval' if config.eval_every else 'episode'}/{config.env.objective}",
        total_frames=math.ceil(config.total_frames / iteration) * iteration,
    )
    if options.population:
        plan = _with_generations(plan, str(config.checkpoint["_target_"]), iteration)
    make_directory(plan.folder if options.population else plan.folder / _TRIALS)
    require_same(plan)
    return plan


def _with_generations(plan: Plan, saver: str, iteration: int) -> Plan:
    """Return the plan of a population: frames of a generation, and a space without schedules."""
    wanted = plan.options.interval
    if wanted is not None:
        require_whole("--interval", wanted, least=1, most=plan.total_frames)
    frames = wanted or math.ceil(plan.total_frames / REPORTS)
    if saver.endswith("NullSaver"):
        raise ConfigError(
            "checkpoint = none with --pbt, whose members continue from checkpoints; expected sync or async; "
            "change checkpoint"
        )
    space = without_schedules(plan.space)
    return plan._replace(interval=math.ceil(frames / iteration) * iteration, space=space)


def _check(options: Options) -> None:
    require_whole("--trials", options.trials, least=1)
    require_whole("--seeds", options.seeds, least=1)
    require_choice("--pruner", options.pruner, PRUNERS)
    if options.cost and options.pruner != "none":
        raise ConfigError(
            f"--cost has two goals, and --pruner {options.pruner} needs one; expected --pruner none; change "
            "--pruner or leave --cost out"
        )
    if options.study is not None:
        is_name = options.study.replace("-", "").replace("_", "").replace(".", "").isalnum()
        fits = is_name and not options.study.startswith(".") and len(options.study) <= _LONGEST_NAME
        require(fits, "study", options.study, "a name of letters, digits, - and _")
    for word in options.overrides:
        key = word.lstrip("+~").partition("=")[0]
        if key in _OWN:
            raise ConfigError(f"'{word}' is decided by navrl tune for each trial; leave {key}= out")


def keep(plan: Plan) -> None:
    """Write the plan into its folder; raise if a study of something else is there."""
    require_same(plan)
    write_atomically(plan.folder / _FILE, to_json(describe(plan), indent=2) + "\n")


def require_same(plan: Plan) -> None:
    """Raise ConfigError if the folder holds a study of something else."""
    path = plan.folder / _FILE
    if not path.exists():
        return
    found = read_json(path)
    before = found if isinstance(found, dict) else {}
    for key, value in describe(plan).items():
        if before.get(key) != value:
            raise ConfigError(
                f"{plan.folder} holds a study with {key} = {_short(before.get(key))}, this command has "
                f"{_short(value)}; expected the same, to go on with it; choose another study=..."
            )


def describe(plan: Plan) -> dict[str, Any]:
    """Return what a study is; the number of its trials may grow."""
    options = plan.options
    return {
        "overrides": list(options.overrides),
        "space": {
            key: [type(each).__name__, *map(_plain, each)]
            for key, each in plan.space.dimensions.items()
        },
        "seeds": list(plan.seeds),
        "pruner": options.pruner,
        "cost": options.cost,
        "storage": plan.storage_shown,
        "objective": plan.objective,
        "total_frames": plan.total_frames,
        "population": options.population or None,
        "interval": plan.interval or None,
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _short(value: object) -> str:
    text = (
        written_value(value)
        if value is None or isinstance(value, bool | int | float | str)
        else to_json(value)
    )
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}..."


def words_of_command(options: Options, workers: int) -> Sequence[str]:
    """Return the command that begins this search and goes on with it."""
    named = [f"study={options.study}"] * (options.study is not None)
    named += [f"space={options.space}"] * (options.space is not None)
    if options.population:
        flags = ["--pbt", "--population", str(options.population), "--workers", str(workers)]
        flags += [] if options.interval is None else ["--interval", str(options.interval)]
    else:
        flags = ["--trials", str(options.trials), "--workers", str(workers)]
        flags += ["--seeds", str(options.seeds)] * (options.seeds > 1)
        flags += ["--cost"] if options.cost else ["--pruner", options.pruner]
    flags += ["--storage", options.storage] if options.storage is not None else []
    flags += ["--config-dir", str(options.config_dir)] if options.config_dir is not None else []
    return ["navrl", "tune", *named, *options.overrides, *flags]
