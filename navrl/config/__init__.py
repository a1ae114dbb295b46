"""Configuration: composing conf/, building objects from it, and the entry of the commands."""

from navrl.config.command import run_main, run_plain
from navrl.config.compose import build, compose, conf_dir, from_json, to_json
from navrl.config.resumed import resumed
from navrl.config.targets import ConfigError, did_you_mean

__all__ = [
    "ConfigError",
    "build",
    "compose",
    "conf_dir",
    "did_you_mean",
    "from_json",
    "resumed",
    "run_main",
    "run_plain",
    "to_json",
]
