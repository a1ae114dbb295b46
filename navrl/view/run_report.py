"""The report of stored runs: which runs make a group, how they are called, where they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from navrl.config.checks import ConfigError, printable
from navrl.loggers.format import count
from navrl.loggers.jsonl import read_iterations
from navrl.run.stored_runs import (
    NO_DIFFERENCE,
    Description,
    StoredRun,
    read_description,
    runs_in,
    short_names,
)
from navrl.view.curves import Rows
from navrl.view.provenance import provenance
from navrl.view.report import report
from navrl.view.report_charts import Run

_KIND = ("env", "agent")  # overrides that are in the label already
_LONGEST_LABEL = 500  # characters
_LONGEST_OPPONENT = 100


class Record(NamedTuple):
    """A run's folder, and its metrics for a report."""

    stored: StoredRun
    run: Run


def read_runs(places: Sequence[Path]) -> list[Record]:
    """Return the runs at or below these places; raise ConfigError if none has logged anything."""
    paths = list(dict.fromkeys(path for place in places for path in runs_in(place)))
    records = labelled([_read(path) for path in paths])
    if not any(record.run.rows for record in records):
        others = f", and so have {len(records) - 1} others" if len(records) > 1 else ""
        raise ConfigError(
            f"{paths[0]} has logged nothing yet ({records[0].run.state}){others}; expected an iteration "
            "or more; name another run"
        )
    return records


def report_of(records: Sequence[Record], places: Sequence[Path]) -> dict[str, Any]:
    """Return the data of the page of these runs, which lie at or below the places."""
    runs = [record.run for record in records]
    envs = " and ".join(dict.fromkeys(record.stored.found.env for record in records))
    agents = " and ".join(dict.fromkeys(record.stored.found.agent for record in records))
    number = f"{len(runs)} runs of " if len(runs) > 1 else ""
    frames = max(run.frames for run in runs)
    groups: dict[str, list[StoredRun]] = {}
    for record in records:
        groups.setdefault(record.run.label, []).append(record.stored)
    data = report(
        runs,
        title=f"{number}{envs} with {agents}",
        subtitle=f"{', '.join(map(str, places))}: {count(frames)} frames",
    )
    names = {record.stored: record.run.name for record in records}
    return data | {"provenance": provenance(groups, names)}


def _read(path: Path) -> Record:
    """Read a run; late metrics join the row of their iteration."""
    log = path / "metrics.jsonl"
    rows = read_iterations(log) if log.exists() else []
    return record_of(StoredRun(read_description(path)), rows)


def record_of(stored: StoredRun, rows: Rows) -> Record:
    """Return the record of a run with these metrics; it has no label yet."""
    found = stored.found
    episodes = found.config.get("eval_episodes")
    run = Run(
        name=str(stored.path),
        label="",
        seed=found.seed,
        state=_state(stored),
        objective=found.objective,
        rows=rows,
        summary=found.summary,
        opponent=_opponent(found),
        eval_episodes=episodes if isinstance(episodes, int) else None,
    )
    return Record(stored, run)


def _opponent(found: Description) -> str:
    """Return the opponent of training by the option that was typed, or else by its pilots or class."""
    opponent = found.config.get("opponent")
    if not isinstance(opponent, Mapping):
        return ""
    typed = [word.partition("=")[2] for word in found.overrides if word.startswith("opponent=")]
    names = opponent.get("pilots")
    parts = [*names] if isinstance(names, Mapping) else []
    if "scripts" in opponent:
        parts = ["a league"]
    target = str(opponent.get("_target_", "")).rpartition(".")[2].lower()
    return printable(typed[-1] if typed else ", ".join(parts) or target)[:_LONGEST_OPPONENT]


def _state(stored: StoredRun) -> str:
    """Return the state of a run, and why it failed."""
    found = stored.found
    reason = printable(str(found.status.get("reason", "")))
    text = f"{found.state}: {reason}" if found.state == "failed" else found.state
    return text[:_LONGEST_LABEL]


def labelled(records: Sequence[Record]) -> list[Record]:
    """Label every run with env and agent where these differ, and with the overrides of its own."""
    found = [record.stored.found for record in records]
    everywhere = set.intersection(*(set(each.overrides) for each in found))
    own = [
        [word for word in each.overrides if word not in everywhere and _distinguishes(word)]
        for each in found
    ]
    keys = {_key(word) for words in own for word in words}
    lasts = Counter(key.rpartition(".")[2] for key in keys)
    several = {name: len({getattr(each, name) for each in found}) > 1 for name in _KIND}
    names = short_names([record.stored.path for record in records])

    def label(each: Description, words: Sequence[str]) -> str:
        parts = [getattr(each, name) for name in _KIND if several[name]]
        for word in words:
            last = _key(word).rpartition(".")[2]
            value = word.partition("=")[1:]
            parts.append("".join([last, *value]) if lasts[last] == 1 else word)
        return printable(" ".join(parts) or each.agent)[:_LONGEST_LABEL]

    return [
        Record(stored, run._replace(label=label(stored.found, words), name=printable(name)))
        for (stored, run), words, name in zip(records, own, names, strict=True)
    ]


def _distinguishes(override: str) -> bool:
    """Return true if the override may distinguish runs and is not part of the label already."""
    key = _key(override)
    return key not in _KIND and key.partition(".")[0] not in NO_DIFFERENCE


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")
