"""Checks of what a configuration names: whether it is a world, and takes the arguments of its part."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from omegaconf import DictConfig

from navrl.config.build import parameters_of
from navrl.config.checks import ConfigError
from navrl.config.compose import build
from navrl.config.plugins import allowed, find_target
from navrl.curriculum import NoCurriculum
from navrl.envs.core.env import BatchedEnv, EnvOptions


def check_kind(env: Any) -> None:
    """Raise ConfigError unless the env is one that navrl can train."""
    kind = f"{type(env).__module__}.{type(env).__qualname__}"
    if hasattr(env, "episode_keys"):
        return
    if isinstance(env, BatchedEnv):
        raise ConfigError(
            f"{kind}.__init__ does not call super().__init__(**options); expected it, with reward, sim and "
            f"all other options; change {kind}.__init__, or leave it out and read self.params"
        )
    raise _no_world(kind)


def _no_world(kind: str) -> ConfigError:
    return ConfigError(
        f"env._target_ = {kind} is no world; expected a subclass of navrl.envs.core.env.BatchedEnv, or "
        "env=torchrl for an env of TorchRL; change env._target_"
    )


def check_class(target: str) -> None:
    """Raise ConfigError about a user's class that cannot take what every world is given."""
    if target.partition(".")[0] not in allowed():
        return
    found: Any = find_target(target, "env._target_")
    if not inspect.isclass(found):
        return
    # A class of its own shows its signature; a metaclass, as TorchRL's envs have, hides that of __init__.
    plain = found.__init__ is object.__init__
    taken = {} if plain else parameters_of(found.__init__)
    if any(item.kind is item.VAR_KEYWORD for item in taken.values()):
        return
    if not issubclass(found, BatchedEnv) and "num_envs" not in taken:
        raise _no_world(target)
    if issubclass(found, BatchedEnv) and not {"reward", *EnvOptions.__required_keys__} <= {*taken}:
        raise ConfigError(
            f"{target}.__init__({', '.join(taken)}) does not take all options of a world; expected "
            f"__init__(self, **options) that calls super().__init__(**options); change {target}.__init__, or "
            "leave it out and read self.params"
        )


def check_arguments(
    part: str, make: Callable[..., Any], arguments: Mapping[str, Any], from_checkpoint: bool
) -> None:
    """Raise ConfigError unless what a configuration describes can be called with these arguments."""
    try:
        inspect.signature(make).bind(**arguments)
    except TypeError as error:
        reason = f"{part}: {error}; expected one that takes {', '.join(arguments)}; change {part}"
        if from_checkpoint:
            reason = (
                "the checkpoint was saved by another version of navrl, whose "
                f"{part} had other options: {error}; use that version, or train again"
            )
        raise ConfigError(reason) from error


def check_inbox(cfg: DictConfig, num_ranks: int) -> None:
    """Raise ConfigError about what does not go with rollouts that other processes collect."""
    make = build(cfg.collector)
    if not getattr(make.func, "reads_inbox", False):
        return
    saver = build(cfg.checkpoint)
    save_every, most = saver.keywords.get("save_every"), make.keywords["max_lag"] + 1
    wrong = {
        f"ranks = {num_ranks}": (num_ranks > 1, "one: only one process reads the folder", "ranks"),
        "curriculum": (
            build(cfg.curriculum).func is not NoCurriculum,
            "curriculum=none: those who collect know of no curriculum",
            "curriculum",
        ),
        "checkpoint=none": (
            save_every is None,
            "checkpoints: those who collect take the weights from there",
            "checkpoint",
        ),
        f"checkpoint.save_every = {save_every}": (
            save_every is not None and save_every > most,
            f"at most {most}: with collector.max_lag = {most - 1} older weights are of no use",
            "checkpoint.save_every or collector.max_lag",
        ),
    }
    for found, (is_wrong, expected, options) in wrong.items():
        if is_wrong:
            raise ConfigError(
                f"{found} with collector=folder; expected {expected}; change {options}"
            )
