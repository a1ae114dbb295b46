"""Filters of runs as words, such as env=combat, objective>0.9 or agent.discount=0.99."""

from __future__ import annotations

import math
import operator
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from navrl.config.checks import ConfigError, did_you_mean
from navrl.run.stored_runs import DEPTHS, OF_RUNS, RUNS, STATES, StoredRun, stored_runs
from navrl.storage.find import OUTPUTS, find_place

_WORD = re.compile(r"([A-Za-z_][\w./@%-]*)(>=|<=|!=|==|=|>|<)(.*)", re.DOTALL)
_ORDER: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_EQUAL = ("=", "==")
FACTS: dict[str, Callable[[StoredRun], Any]] = {
    "name": lambda run: run.path.name,
    "env": lambda run: run.found.env,
    "agent": lambda run: run.found.agent,
    "seed": lambda run: run.found.seed,
    "state": lambda run: run.state,
    "frames": lambda run: run.frames,
    "objective": lambda run: run.objective.value if run.objective else math.nan,
    "tag": lambda run: run.notes.tags,
}


class Filter(NamedTuple):
    """A key, a comparison, and what the key is compared with."""

    key: str
    comparison: str
    value: str


def parse_filter(word: str) -> Filter | None:
    """Return the filter that a word is, None if it is none."""
    match = _WORD.fullmatch(word)
    if match is None:
        return None
    found = Filter(*match.groups())
    if found.comparison in _ORDER and _number(found.value) is None:
        raise ConfigError(
            f"{word}; expected a number after {found.comparison}; change {found.value or 'the filter'}"
        )
    if found.key == "state" and not any(
        _passes(state, found._replace(comparison="=")) for state in STATES
    ):
        hint = did_you_mean(found.value, STATES)
        raise ConfigError(f"{word}; expected {', '.join(STATES)}{hint or '; change it'}")
    return found


def fact(run: StoredRun, key: str) -> Any:
    """Return what the run has under this key, a fact, a metric or an option; None if nothing."""
    if key in FACTS:
        return FACTS[key](run)
    if key in run.metrics:
        return run.metrics[key]
    return run.items.get(key)


def filtered(runs: Sequence[StoredRun], filters: Iterable[Filter]) -> list[StoredRun]:
    """Return the runs that pass every filter; raise ConfigError about a key that no run has."""
    wanted = list(filters)
    require_known(runs, [each.key for each in wanted])
    return [run for run in runs if all(_passes(fact(run, each.key), each) for each in wanted)]


def require_known(runs: Sequence[StoredRun], keys: Iterable[str]) -> None:
    """Raise ConfigError about a key that neither a fact, nor an option or metric of any run has."""
    for key in keys:
        if not runs or key in FACTS:
            continue
        if any(key in run.items or key in run.metrics for run in runs):
            continue
        known = {name for run in runs for name in (*run.items, *run.metrics)}
        hint = did_you_mean(key, [*FACTS, *sorted(known)])
        raise ConfigError(
            f"{key} is unknown to these runs; expected {', '.join(FACTS)}, an option as in config.yaml, or a "
            f"metric{hint or '; change it'}"
        )


def _passes(found: Any, wanted: Filter) -> bool:
    if wanted.comparison in _ORDER:
        number, limit = _number(found), _number(wanted.value)
        known = number is not None and limit is not None
        return known and _ORDER[wanted.comparison](number, limit)  # type: ignore[arg-type]
    if isinstance(found, tuple):
        equal = any(fnmatchcase(word, wanted.value) for word in found)
    else:
        equal = _equals(found, wanted.value)
    return equal == (wanted.comparison in _EQUAL)


def _equals(found: Any, text: str) -> bool:
    """Return whether a value is what the text says: a number of any spelling, a word or a pattern."""
    if type(found) in (int, float):
        return _number(text) == found
    return fnmatchcase(as_text(found), text)


def as_text(value: Any) -> str:
    """Return a value as YAML spells it on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{','.join(map(as_text, value))}]"
    try:
        return str(value)
    except ValueError:  # a whole number of thousands of digits
        return "a huge number"


def _number(value: Any) -> int | float | None:
    """Return a finite number, or None."""
    if isinstance(value, str):
        try:
            value = int(value) if value.lstrip("+-").isdecimal() else float(value)
        except ValueError:
            return None
    if type(value) not in (int, float) or value != value:
        return None
    return value if abs(value) != math.inf else None


def select_runs(words: Sequence[str]) -> list[StoredRun]:
    """Return the runs in the folders among the words, or in all of RUNS, that pass the filters among them."""
    places, filters = [], []
    for word in words:
        found = None if os.path.lexists(word) else parse_filter(word)
        if word in FACTS and not os.path.lexists(word):
            raise ConfigError(
                f"{word} is a key; expected it with a value; write {word}=..., and quote > and < as in "
                f"'{word}>1'"
            )
        if found is None:
            places.append(find_place(word, OUTPUTS))
        else:
            filters.append(found)
    if not places:
        places = [folder for folder in RUNS if _has_runs(folder)]
        if not places:
            raise ConfigError(
                f"there are no runs in {' and '.join(map(str, RUNS))}; expected some; train first, or name "
                "a folder"
            )
    runs = list(stored_runs(places, lambda text: warnings.warn(text, RuntimeWarning, stacklevel=2)))
    return filtered(runs, filters)


def _has_runs(folder: Path) -> bool:
    return any(next(folder.glob(f"{depth}/{name}"), None) for depth in DEPTHS for name in OF_RUNS)
