"""The space of a search: options of navrl train, each with a range or with choices, from conf/tune."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from navrl.config.checks import ConfigError, did_you_mean, require, require_flag, require_number
from navrl.config.compose import compose, dotted_items, group_option, group_options, to_json
from navrl.config.quoting import override

Scalar = None | bool | int | float | str
_GROUP = "tune"
_FINAL = (".final_learning_rate", ".final_learning_rate_share")  # at the end of a run
_DIGITS = 4  # of a number that was drawn: a command that people read and paste
_KEYS = ({"low", "high"}, {"low", "high", "log"}, {"low", "high", "step"}, {"choices"})
_SHAPE = "{low: 1, high: 9}, with log: true or step: 2 if wanted, or {choices: [1, 2]}"
# Options that say how a trial is run, which the search decides itself.
_NOT_SEARCHED = ("hydra", "resume", "seed", "restarts", "console", "logger", "plugins", "init")


class Range(NamedTuple):
    """The numbers between two bounds, both included; whole numbers if both bounds are whole."""

    low: float
    high: float
    log: bool
    step: float | None

    @property
    def whole(self) -> bool:
        """Return whether only whole numbers are meant."""
        return isinstance(self.low, int) and isinstance(self.high, int)


class Choices(NamedTuple):
    """A few values; a list such as [64, 64] is kept as JSON text."""

    values: tuple[Scalar, ...]


Dimension = Range | Choices


class Space(NamedTuple):
    """The dimensions by option, and the value that each option has by default."""

    name: str
    dimensions: dict[str, Dimension]
    defaults: dict[str, Scalar]


def read_space(name: str, overrides: Sequence[str]) -> Space:
    """Return the space of this name for trainings with these options.

    A default outside of its dimension widens it, so that it can be the first trial.
    """
    found = to_json(group_option(_GROUP, name))
    require(bool(found), f"conf/{_GROUP}/{name}.yaml", "empty", f"options, each as {_SHAPE}")
    dimensions = {key: dimension_of(key, each, name) for key, each in found.items()}
    known = dict(dotted_items(to_json(compose("train", overrides))))
    defaults = {key: _default(key, known, name) for key in dimensions}
    widened = {key: widen(each, defaults[key], key) for key, each in dimensions.items()}
    return Space(name, widened, defaults)


def space_for(agent: str) -> str:
    """Return the space that goes with an agent: the one of its name."""
    names = group_options(_GROUP)
    if agent not in names:
        raise ConfigError(
            f"agent '{agent}' has no space of its name; expected one of {', '.join(names)}; add space=..., "
            f"or write {_GROUP}/{agent}.yaml and name its folder with --config-dir"
        )
    return agent


def dimension_of(key: str, written: object, name: str) -> Dimension:
    """Return the dimension that a YAML file describes, or raise one sentence."""
    where = f"{key} in conf/{_GROUP}/{name}.yaml"
    root = key.partition(".")[0]
    require(root not in _NOT_SEARCHED, where, "searched", "an option that changes the training")
    if not isinstance(written, Mapping) or set(written) not in _KEYS:
        raise ConfigError(f"{where} = {written}; expected {_SHAPE}; change {where}")
    if "choices" in written:
        values = written["choices"]
        several = isinstance(values, list) and len(values) > 1
        require(several, where, values, "a list of two values or more")
        return Choices(tuple(dict.fromkeys(map(_scalar, values))))
    low, high, log = written["low"], written["high"], written.get("log", False)
    step = written.get("step")
    require_flag(f"log of {where}", log)
    require_number(f"low of {where}", low, above=0.0 if log else None)
    require_number(f"high of {where}", high, above=low)
    if step is not None:
        require_number(f"step of {where}", step, above=0.0, most=high - low)
    return Range(low, high, log, step)


def widen(dimension: Dimension, value: Scalar, key: str) -> Dimension:
    """Return the dimension with the value inside it."""
    if isinstance(dimension, Choices):
        return Choices(tuple(dict.fromkeys((*dimension.values, value))))
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ConfigError(
            f"{key} = {written_value(value)} has a range from {dimension.low} to {dimension.high} in its "
            f"space; expected a number; set {key}, or give it choices"
        )
    number = float(value) if not dimension.whole else value
    if dimension.log and number <= 0:
        raise ConfigError(
            f"{key} = {value} has log: true in its space; expected a number above 0; set {key}"
        )
    inside = dimension.low <= number <= dimension.high
    wide = dimension._replace(low=min(dimension.low, number), high=max(dimension.high, number))
    return dimension if inside else wide._replace(step=None)


def without_schedules(space: Space) -> Space:
    """Return the space without the ends of learning rates, which a population holds constant."""
    where = f"total_frames in conf/{_GROUP}/{space.name}.yaml"
    alike = "total_frames" not in space.dimensions
    require(alike, where, "searched", "another option with --pbt, where all members train as long")
    kept = {key: each for key, each in space.dimensions.items() if not key.endswith(_FINAL)}
    require(bool(kept), f"conf/{_GROUP}/{space.name}.yaml", "only ends", "another option")
    return Space(space.name, kept, {key: space.defaults[key] for key in kept})


def constant_rates(
    known: Mapping[str, Any], typed: Sequence[str], params: Mapping[str, Scalar]
) -> dict[str, Scalar]:
    """Return the options that hold every learning rate constant, but those that the user typed."""
    own = {word.lstrip("+").partition("=")[0] for word in typed}
    found: dict[str, Scalar] = {}
    for key in known.keys() - own:
        start = f"{key.rpartition('.')[0]}.learning_rate"
        if key.endswith("_share") and key.endswith(_FINAL):
            found[key] = 1.0
        elif key.endswith(_FINAL) and start in known:
            found[key] = _scalar(params.get(start, known[start]))
    return dict(sorted(found.items()))


def words(params: Mapping[str, Scalar]) -> list[str]:
    """Return the options of navrl train that a trial chose."""
    return [_word(key, value) for key, value in params.items()]


def typed_otherwise(overrides: Sequence[str], params: Mapping[str, Scalar]) -> list[str]:
    """Return the words of a command line without those of options that a trial chose."""
    return [word for word in overrides if word.lstrip("+").partition("=")[0] not in params]


def written_value(value: Scalar) -> str:
    """Return a value as a command line and YAML write it."""
    if isinstance(value, float):
        return repr(float(f"{value:.{_DIGITS}g}"))
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return str(value)


def dimension_shown(key: str, dimension: Dimension) -> dict[str, Any]:
    """Return the axis of a dimension in a page."""
    if isinstance(dimension, Choices):
        return {"name": key, "choices": [written_value(each) for each in dimension.values]}
    return {"name": key, "low": dimension.low, "high": dimension.high, "log": dimension.log}


def _word(key: str, value: Scalar) -> str:
    if isinstance(value, str) and not value.startswith("["):
        return override(key, value)
    return f"{key}={written_value(value)}"


def _default(key: str, known: Mapping[str, Any], name: str) -> Scalar:
    """Return the value of an option in the configuration of the training."""
    if key not in known:
        hint = did_you_mean(key, list(known))
        raise ConfigError(
            f"the space '{name}' has {key}, which this training does not have{hint}; choose another space "
            "with space=..., or another agent"
        )
    return _scalar(known[key])


def _scalar(value: object) -> Scalar:
    """Return a value that Optuna keeps: a list becomes JSON text, which Hydra reads as the list again."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return json.dumps(value, separators=(",", ":"))
