"""Options that more than one command takes, checked before anything starts."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from navrl.agents.fast.allocator import keep_freed_memory
from navrl.config.checks import ConfigError
from navrl.config.compose import build
from navrl.contracts import Agent
from navrl.envs.combat.sim.params import CombatParams

MOST_ENVS = 1 << 20  # no machine holds more; some would swap for minutes before they say so


def pick_device(wanted: str) -> torch.device:
    """The device, or one sentence if this machine or this torch has none of the kind."""
    if wanted == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"device = {wanted!r}; expected auto, cpu or cuda; change device"
        ) from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError(
                f"device = {wanted}, but torch {torch.__version__} sees no GPU; expected a CUDA build "
                "of torch and a driver; use device=cpu, or see `navrl doctor`"
            )
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)  # streams and events of this process belong to it
    return device


def fight_params(config: DictConfig) -> CombatParams:
    """The constants of the fight, for a command that knows air combat only."""
    params = build(config.env.sim)
    if not isinstance(params, CombatParams):
        raise ConfigError(
            f"env={config.env.name} is no air combat; expected env=combat; change env"
        )
    return params.checked()


def check_whole(cfg: DictConfig, *names: str, least: int, most: int | None = None) -> None:
    """Raise about the first option that is not a whole number from `least` to `most`."""
    for name in names:
        found = cfg[name]
        if type(found) is not int or found < least or (most is not None and found > most):
            wanted = f", {least} or more" if most is None else f" from {least} to {most}"
            raise ConfigError(f"{name} = {found}; expected a whole number{wanted}; change {name}")


def check_flag(cfg: DictConfig, name: str) -> None:
    """Raise about an option that is neither true nor false."""
    if type(cfg[name]) is not bool:
        raise ConfigError(f"{name} = {cfg[name]}; expected true or false; change {name}")


def allow_lag(cfg: DictConfig, agent: Agent, make_collector: Any) -> None:
    """Tell the agent of rollouts that will be of an older version than its own, if it may learn from them."""
    if not getattr(make_collector.func, "lag", 0):
        return
    if cfg.strict:
        raise ConfigError(
            "strict = true, and rollouts of collector=pipelined are of the policy before its last update; "
            "expected rollouts of the policy that learns; use collector=sync, or leave strict=true out"
        )
    agent.allow_lag()


def prepare_process(threads: int | None) -> None:
    """On so many of torch's threads, unless null, and with an allocator that keeps its memory."""
    keep_freed_memory()
    if threads is None:
        return
    if type(threads) is not int or threads < 1:
        raise ConfigError(f"threads = {threads}; expected 1 or more, or null; change threads")
    torch.set_num_threads(threads)


@contextlib.contextmanager
def enough_memory(name: str, number: int) -> Iterator[None]:
    """What torch's allocators say, as one sentence about the option of which there are too many."""
    try:
        yield
    except RuntimeError as error:  # the CPU's has no class of its own
        if not re.search("allocate memory|not enough memory|out of memory", str(error)):
            raise
        raise ConfigError(
            f"{name} = {number} needs more memory than there is; expected fewer; change {name}"
        ) from error


def check_writable(path: Path, option: str = "--output") -> Path:
    """The path, if its folder exists; asked before hours of work, not after."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        written = f"{option} {path}" if option.startswith("-") else f"{option} = {path}"
        raise ConfigError(f"{written}; expected a file in an existing folder; change {option}")
    return path
