"""navrl.train, navrl.evaluate and navrl.make: the commands as functions."""

from __future__ import annotations

import contextlib
import importlib
import math
import re
import signal
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, open_dict
from torchrl.envs import EnvBase

from navrl.api.runs import Run
from navrl.config.checks import ConfigError, require, require_whole
from navrl.config.command import check_can_start
from navrl.config.compose import compose, compose_all, dotted_items
from navrl.config.plugins import own_plugins
from navrl.config.quoting import override
from navrl.run.build import build_env
from navrl.run.device import own_threads, prepare_process
from navrl.run.policies import measure_policy

Options = str | Mapping[str, Any]


class Result(NamedTuple):
    """The outcome of a training: its run directory and its score."""

    run: Run  # what the training has written
    score: float  # the final rate of env.objective, more is better; nan if the training was stopped

    @property
    def path(self) -> Path:
        """Return the run directory."""
        return self.run.path

    @property
    def metrics(self) -> dict[str, float]:
        """Return the numbers that judge the whole run."""
        return self.run.summary


class Record(NamedTuple):
    """A statistic of episodes: its mean and the 95 % interval around it."""

    metric: str  # such as win or return
    mean: float  # over the episodes
    low: float  # where the interval begins
    high: float  # and where it ends
    episodes: int  # number that counted


@own_plugins()
def train(*options: Options, **named: Any) -> Result:
    """Train a policy; Ctrl-C saves it and returns, other signals save it and end the process.

    Options are those of the command line: words such as "env.sim.time_limit_s=60", mappings, nested or with
    dots in their keys, and names such as env="combat", seed=1.
    """
    config = compose_all("train", words_of(*options, named))
    expected = "0 from Python; a crashed training is started again by the command navrl train"
    require(config.restarts == 0, "restarts", config.restarts, expected)
    expected = "1 from Python; several processes are started by the command navrl train"
    require(config.ranks == 1, "ranks", config.ranks, expected)
    begun: list[Path] = []
    score = math.nan
    with _as_job(config) as cfg:
        try:
            score = importlib.import_module("navrl.train").train(cfg, begun.append)
        except SystemExit as end:  # after a signal, once all is saved
            if end.code != 128 + signal.SIGINT:
                raise
    run = Run(begun[0])
    found = math.isnan(score) and run.status.get("state") == "finished"  # by resume=auto
    return Result(run, _final_score(run) if found else score)


def _final_score(run: Run) -> float:
    """Return the score of a finished run: the mean of its final rates, one for each opponent."""
    objective = run.config["env"]["objective"]
    finals = [n for n in run.summary if re.fullmatch(rf"eval/[^/]+/{re.escape(objective)}", n)]
    return sum(run.summary[name] for name in finals) / len(finals) if finals else math.nan


@contextlib.contextmanager
def _as_job(config: DictConfig) -> Iterator[DictConfig]:
    """Yield the configuration without Hydra's own part, which is known to the code that asks for it."""
    check_can_start(config, multirun=False)
    folder = Path(config.hydra.run.dir)
    before = HydraConfig.instance().cfg
    with open_dict(config):
        config.hydra.runtime.output_dir = str(folder.absolute())
    cfg = config.copy()
    with open_dict(cfg):
        del cfg["hydra"]
    try:
        HydraConfig.instance().set_config(config)
        folder.mkdir(parents=True, exist_ok=True)
        yield cfg
    finally:
        HydraConfig.instance().cfg = before


@own_plugins()
@own_threads()
def evaluate(
    policy: str | PathLike[str] = "latest",
    *options: Options,
    num_episodes: int = 1000,
    seed: int = 1_000_003,
    deterministic: bool = True,
    device: str = "auto",
    **named: Any,
) -> list[Record]:
    """Play exactly that many episodes of a policy; return its statistics, a row for each.

    A policy is latest, best, a run, a checkpoint or scripted:<name>; other options are those of
    `navrl evaluate`, as for train().
    """
    prepare_process(1)
    metrics, *_ = measure_policy(
        str(policy),
        overrides=words_of(*options, named),
        num_episodes=num_episodes,
        seed=seed,
        deterministic=deterministic,
        device=device,
        compile_mode="off",
    )
    return [Record(name, *interval) for name, interval in metrics.items()]


@own_plugins()
def make(env: str, *options: Options, num_envs: int = 1, seed: int = 0, **named: Any) -> EnvBase:
    """Return an env by its name in conf/env, a TorchRL EnvBase of `num_envs` simulations.

    Other options are those of `navrl train`, as for train(): opponent="crank", {"env.team_size": 2}. The
    number of torch's threads stays as it is.
    """
    require_whole("seed", seed, 0)
    config = compose("train", [f"env={env}", *words_of(*options, named)])
    prepare_process(None)
    built: Any = build_env(config, num_envs=num_envs, seed=seed, from_checkpoint=False)
    return built


def words_of(*options: Options) -> list[str]:
    """Return options as the words of a command line."""
    words: list[str] = []
    for given in options:
        if isinstance(given, str):
            words.append(given)
        elif isinstance(given, Mapping):
            words += [_word(key, value) for key, value in dotted_items(given) if not _nested(value)]
        else:
            raise ConfigError(f"options = {given!r}; expected words such as 'seed=1', or mappings")
    return words


def _nested(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value)


def _word(key: str, value: Any) -> str:
    """Return an override; a text is that text, even where Hydra would read a number or null."""
    if isinstance(value, str | PathLike):
        return override(key, str(value))
    if value is None:
        return f"{key}=null"
    if isinstance(value, bool):
        return f"{key}={str(value).lower()}"
    if isinstance(value, int | float):
        return f"{key}={value}"
    if isinstance(value, list | tuple):
        return f"{key}=[{','.join(_word('x', item)[2:] for item in value)}]"
    raise ConfigError(
        f"{key} = {value!r}; expected a text, number, true, false, None or a list of such"
    )
