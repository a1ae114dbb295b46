"""The configuration of a resumed run: the saved one with the overrides of the new command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from navrl.config.checks import ConfigError
from navrl.config.compose import compose, from_json
from navrl.config.stored import LOCAL, plain_stored

_PRESETS = ("experiment", "sweep")  # the saved configuration contains their values already
# Other values of these make another run.
_KEPT = ("seed", "rollout_steps", "env", "agent", "observation", "action")
# These change no result, or the first lines of the run show them.
_SILENT = (
    "resume",
    "restarts",
    "ranks",
    "total_frames",
    "console",
    "device",
    "threads",
    "compile",
    "profile",
    "plugins",
    *LOCAL,
)
_MOST_SHOWN = 6
_ABSENT = object()


def resumed(
    saved: Mapping[str, Any],
    choices: Mapping[str, Any],
    composed: DictConfig,
    overrides: Sequence[str],
    chosen: Mapping[str, Any],
) -> DictConfig:
    """Return `saved` with every key or group that `overrides` name taken from `composed`.

    `choices` and `chosen` are the options of every group, then and now.
    """
    config = from_json(saved)
    config.plugins = composed.plugins
    _complete(config, composed, choices, chosen)
    keys = {_key(override): override for override in overrides}
    # The run's own option of a group means the run's values.
    same = [key for key in chosen if choices.get(key) == chosen[key]]
    for key, override in keys.items():
        if key in _PRESETS or key in _KEPT:
            _keep(key, override, choices if key in chosen else config, chosen, composed)
        elif key not in same and key.partition(".")[0] not in (
            "resume",
            "restarts",
            "ranks",
            "hydra",
            *LOCAL,
        ):
            _replace(config, key, override, composed, is_group=key in chosen)
    again = {g: f"{g}={choices[g]}" for g in LOCAL if _was_chosen(g, choices, keys)}
    local = [override for key, override in keys.items() if key.partition(".")[0] in LOCAL]
    here = compose("train", [*local, *again.values()])
    for group in LOCAL:
        options = _plain(here[group])
        if group in again and group != "logger":  # which may name a server
            options |= _numbers(config.get(group), options)
        OmegaConf.update(config, group, options, merge=False, force_add=True)
        for key, override in keys.items():
            if key.startswith(f"{group}."):
                _replace(config, key, override, here, is_group=False)
    plain_stored(OmegaConf.to_container(config))
    return config


def _complete(
    config: DictConfig, composed: DictConfig, choices: Mapping[str, Any], chosen: Mapping[str, Any]
) -> None:
    """Add options that are newer than the run; within env and agent if these are the same ones."""
    same = [group for group in ("env", "agent") if choices.get(group) == chosen.get(group)]
    # In an untrusted file a group may be anything.
    same = [group for group in same if OmegaConf.is_dict(config.get(group))]
    absent = [str(key) for key in composed.keys() - config.keys() - chosen.keys()]
    for group in same:
        absent += _newer(_plain(config[group]), _plain(composed[group]), group)
    for key in absent:
        value = _plain(OmegaConf.select(composed, key))
        OmegaConf.update(config, key, value, force_add=True)


def _newer(then: Mapping[str, Any], now: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield options of a class, and of the same classes within it, that the saved one lacks."""
    for key, value in now.items():
        inner = f"{path}.{key}"
        if key not in then:
            yield inner
        elif _kind(value) is not None and _kind(value) == _kind(then[key]):
            yield from _newer(then[key], value, inner)


def _kind(value: Any) -> Any:
    """Return the class that a value describes, or None."""
    return value.get("_target_") if isinstance(value, Mapping) else None


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return what a resume changes against the saved configuration, in one line; empty if nothing.

    Two classes in the same place are shown by their names, without what else differs below them.
    """
    found = list(_differences(then, now, ""))
    rest = f", and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return ", ".join(found[:_MOST_SHOWN]) + rest


def _differences(then: Any, now: Any, path: str) -> Iterator[str]:
    """Yield 'key old -> new' for every leaf that differs."""
    both = isinstance(then, Mapping) and isinstance(now, Mapping)
    if not both or then.get("_target_") != now.get("_target_"):
        if then != now:
            yield f"{path} {_shown(then)} -> {_shown(now)}"
        return
    for key in dict.fromkeys((*then, *now)):
        inner = f"{path}.{key}" if path else str(key)
        if inner not in _SILENT:
            yield from _differences(then.get(key), now.get(key), inner)


def _shown(value: Any) -> str:
    """Return the name of a class, none for an absent value, a number as it is."""
    if isinstance(value, Mapping):
        return str(value.get("_target_", "some")).rpartition(".")[2]
    return "none" if value is None else str(value)


def _numbers(then: Any, now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the saved numbers of an option that is still of the same class."""
    if not OmegaConf.is_dict(then) or then.get("_target_") != now.get("_target_"):
        return {}
    return {key: then[key] for key in now if type(then.get(key)) in (int, float)}


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~").partition("@")[0].partition("/")[0]


def _keep(
    key: str,
    override: str,
    then: Mapping[str, Any] | DictConfig,
    chosen: Mapping[str, Any],
    composed: DictConfig,
) -> None:
    now = chosen[key] if key in chosen else composed[key]
    if then.get(key) != now:
        raise ConfigError(
            f"a resumed run keeps its {key} ({then.get(key)}), so {override} cannot be; remove it, "
            "or start a new run without resume="
        )


def _replace(
    config: DictConfig, key: str, override: str, composed: DictConfig, *, is_group: bool
) -> None:
    if not is_group and OmegaConf.select(config, key, default=_ABSENT) is _ABSENT:
        raise ConfigError(f"the run to resume has no option '{key}'; remove {override}")
    found = OmegaConf.select(composed, key, default=_ABSENT)
    if found is _ABSENT:  # ~key, which deletes it
        place, _, leaf = key.rpartition(".")
        with open_dict(config):
            del OmegaConf.select(config, place)[leaf]
        return
    OmegaConf.update(config, key, _plain(found), merge=False, force_add=True)


def _was_chosen(group: str, choices: Mapping[str, Any], keys: Mapping[str, str]) -> bool:
    return group not in keys and str(choices.get(group)).isidentifier()


def _plain(node: Any) -> Any:
    return OmegaConf.to_container(node) if OmegaConf.is_config(node) else node
