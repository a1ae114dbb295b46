"""What files of a run may hold, which somebody else may have written: plain data of a bounded size."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from navrl.config.checks import ConfigError

# These write files or talk to servers, so they come from this installation and never from a file.
LOCAL = ("logger", "checkpoint", "collector", "rollouts")
COMMAND = ("resume", "plugins", "hydra")  # of one command only
# The largest configuration of conf/ has 800 values in 8 levels and 10,000 characters.
MOST_VALUES = 5000  # OmegaConf resolves them within a second
MOST_LEVELS = 32  # of nesting and of references to references; OmegaConf recurses for each
MOST_CHARACTERS = 10_000  # of one text; Python reads a number in the square of its digits
MOST_YAML = 128 << 10  # characters of a file; a configuration takes some 20,000
_REFERENCE = re.compile(r"\$\{(\.*)([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)\}")
_SHOWN = 80
# Eight times as fast where PyYAML was built with libyaml, as its wheels are.
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HALF = re.compile(
    r"\\u[dD][89a-fA-F]"
)  # of a character, as a name of a file may hold: libyaml refuses it
_NO_RESOLVER = (
    "expected no resolver such as ${oc.env:...}, and ${ only in a reference such as ${env.name}, because "
    "somebody else may have written it"
)

Keys = tuple[str | int, ...]


def plain_stored(data: Any) -> dict[str, Any]:
    """Return a stored configuration without what a file cannot decide; raise ConfigError unless it is safe.

    It is safe if it is plain data of a bounded size, references included, and no text is more than one
    reference: resolvers run code and read the environment, and parts of text may add up to one.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"a configuration is a mapping of names, but got {type(data).__name__}")
    local = {key: _numbers(data[key]) for key in LOCAL if key in data}
    plain = {key: value for key, value in data.items() if key not in (*LOCAL, *COMMAND)}
    _Sizes(plain).of(())
    return {**plain, "resume": None, "plugins": [], **local}


def is_reference(text: object) -> bool:
    """Return whether a value is one reference such as ${env.name}, and nothing else."""
    return isinstance(text, str) and _REFERENCE.fullmatch(text) is not None


def _numbers(options: Any) -> Any:
    """Return the class and the numbers of a group that comes from this installation otherwise."""
    if not isinstance(options, Mapping):
        return None
    return {
        key: value
        for key, value in options.items()
        if type(value) in (int, float) or (key == "_target_" and "$" not in str(value))
    }


class _Size(NamedTuple):
    """The size of a value with references replaced by what they refer to."""

    values: int
    levels: int


class _Sizes:
    """Sizes by key, each computed once, so that the check takes no longer than reading the file."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._known: dict[Keys, _Size] = {}
        self._open: dict[Keys, None] = {}  # those being computed, to notice circles

    def of(self, keys: Keys) -> _Size:
        """Return the size of the value at these keys."""
        if keys in self._known:
            return self._known[keys]
        if keys in self._open:
            raise _refused(keys, "contains itself", "expected references that end")
        levels = len(self._open)
        if levels <= MOST_LEVELS:
            self._open[keys] = None
            size = self._measured(keys, _at(self._data, keys))
            del self._open[keys]
            levels = size.levels
        if levels > MOST_LEVELS:
            raise _refused(keys, "is nested too deeply", f"expected {MOST_LEVELS} levels at most")
        if size.values > MOST_VALUES:
            raise _too_many(keys)
        self._known[keys] = size
        return size

    def _measured(self, keys: Keys, value: Any) -> _Size:
        if isinstance(value, Mapping | list | tuple):
            return self._of_items(keys, value)
        if isinstance(value, str):
            return self._of_text(keys, value)
        if value is None or isinstance(value, bool | int | float):
            return _Size(1, 1)
        raise _refused(
            keys, f"is a {type(value).__name__}", "expected names, lists, text and numbers"
        )

    def _of_items(self, keys: Keys, items: Any) -> _Size:
        if len(items) > MOST_VALUES:
            raise _too_many(keys)
        values, levels = 1, 0
        for key in items if isinstance(items, Mapping) else range(len(items)):
            if not isinstance(key, str | int) or len(str(key)) > _SHOWN or "${" in str(key):
                raise _refused(keys, f"has the key {str(key)[:_SHOWN]!r}", "expected a plain name")
            size = self.of((*keys, key))
            values, levels = values + size.values, max(levels, size.levels)
        return _Size(values, levels + 1)

    def _of_text(self, keys: Keys, text: str) -> _Size:
        if len(text) > MOST_CHARACTERS:
            raise _refused(
                keys, f"has {len(text):,} characters", f"expected {MOST_CHARACTERS:,} at most"
            )
        if "${" not in text:
            return _Size(1, 1)
        match, shown = _REFERENCE.fullmatch(text), f"is {text[:_SHOWN]!r}"
        if match is None:
            raise _refused(keys, shown, _NO_RESOLVER)
        up, names = len(match[1]), tuple(match[2].split("."))
        target = (*keys[: len(keys) - up], *names) if up else names
        if up > len(keys) or target[0] not in self._data or self._passes_others(target):
            raise _refused(keys, shown, "expected the name of a key, itself in no other reference")
        try:
            _at(self._data, target)
        except LookupError:  # which OmegaConf will name if the value is wanted
            return _Size(1, 1)
        size = self.of(target)
        return _Size(size.values + 1, size.levels + 1)

    def _passes_others(self, keys: Keys) -> bool:
        """Return whether a list or a text, which may be a reference, is on the way to these keys."""
        data: Any = self._data
        for key in keys[:-1]:
            data = data.get(key) if isinstance(data, Mapping) else None
            if isinstance(data, str | list | tuple):
                return True
        return False


def _at(data: Any, keys: Keys) -> Any:
    """Return the value at these keys; raise LookupError if there is none."""
    for key in keys:
        indexed = Mapping if isinstance(key, str) else Mapping | list | tuple
        if not isinstance(data, indexed):
            raise LookupError(key)
        data = data[key]
    return data


def _too_many(keys: Keys) -> ConfigError:
    return _refused(
        keys, f"has more than {MOST_VALUES:,} values", "expected fewer, with references"
    )


def _refused(keys: Keys, found: str, expected: str) -> ConfigError:
    name = ".".join(map(str, keys))
    key = f"{name[:_SHOWN]!r}" if keys else "it"
    return ConfigError(f"the stored configuration cannot be used: {key} {found}; {expected}")


def parse_yaml(text: str, path: Path) -> Any:
    """Return the plain data of a YAML text from a run's folder; raise ConfigError unless it is small."""
    if len(text) > MOST_YAML:
        raise _unusable(path, f"{len(text):,} characters")
    try:
        _check_events(text, path)
        return yaml.load(text, _loader(text))
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise _unusable(path, f"no plain YAML ({type(error).__name__})") from error


def _loader(text: str) -> type[Any]:
    return yaml.SafeLoader if _HALF.search(text) else _LOADER


def words_of(text: str, path: Path) -> list[str]:
    """Return the overrides that a run's overrides.yaml holds."""
    words = parse_yaml(text, path)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _unusable(path, "no list of words")
    return words


def _unusable(path: Path, found: str) -> ConfigError:
    return ConfigError(f"{path} holds {found}; expected what navrl wrote; choose another run")


def _check_events(text: str, path: Path) -> None:
    """Raise ConfigError about aliases, anchors and tags, which navrl does not write, and too much data."""
    levels = values = 0
    for event in yaml.parse(text, _loader(text)):
        if isinstance(event, yaml.CollectionEndEvent):
            levels -= 1
        elif isinstance(event, yaml.NodeEvent):
            values += 1
            levels += isinstance(event, yaml.CollectionStartEvent)
            reason = _refusal(event, levels, values)
            if reason:
                raise _unusable(path, reason)


def _refusal(event: Any, levels: int, values: int) -> str:
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        return "an alias"
    if event.tag is not None:
        return "a tag"
    if isinstance(event, yaml.ScalarEvent) and len(event.value) > MOST_CHARACTERS:
        return f"a text of {len(event.value):,} characters"
    if levels >= MOST_LEVELS:
        return f"more than {MOST_LEVELS} levels"
    return f"more than {MOST_VALUES:,} values" if values > MOST_VALUES else ""
