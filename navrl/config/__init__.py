"""Configuration: composing conf/, building objects from it, and the entry of the commands."""

from navrl.config.build import ConfigError, did_you_mean
from navrl.config.command import run_main, run_plain
from navrl.config.compose import (
    build,
    compose,
    compose_all,
    conf_dir,
    from_json,
    group_option,
    group_options,
    to_json,
)
from navrl.config.resumed import LOCAL, changes, resumed

__all__ = [
    "LOCAL",
    "ConfigError",
    "build",
    "changes",
    "compose",
    "compose_all",
    "conf_dir",
    "did_you_mean",
    "from_json",
    "group_option",
    "group_options",
    "resumed",
    "run_main",
    "run_plain",
    "to_json",
]
