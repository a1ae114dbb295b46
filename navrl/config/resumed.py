"""The configuration of a resumed run: what the run was started with, plus what the user changes now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from navrl.config.compose import from_json
from navrl.config.targets import ConfigError

# Groups that set keys all over the configuration: what they said is in the saved one already.
_PRESETS = ("experiment", "sweep")
_ABOUT_THIS_START = ("resume", "hydra")


def resumed(
    saved: Mapping[str, Any], composed: DictConfig, overrides: Sequence[str], groups: Sequence[str]
) -> DictConfig:
    """`saved`, with every key or group that `overrides` name taken from `composed`."""
    config = from_json(saved)
    for override in overrides:
        key = override.partition("=")[0].lstrip("+~").partition("@")[0]
        if key in _PRESETS or key.partition(".")[0].partition("/")[0] in _ABOUT_THIS_START:
            continue
        if key not in groups and OmegaConf.select(config, key, default=_ABSENT) is _ABSENT:
            raise ConfigError(f"the run to resume has no option '{key}'; remove {override}")
        value = OmegaConf.select(composed, key)
        raw = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
        OmegaConf.update(config, key, raw, merge=False, force_add=True)
    return config


_ABSENT = object()
