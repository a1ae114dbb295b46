"""Origin of the curves of a report: options that differ, machines, versions, commands, configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from navrl.config.checks import ConfigError, printable
from navrl.run.origin import differences, origin_of
from navrl.run.stored_runs import StoredRun
from navrl.storage.files import read_text

_MOST_ROWS = 60  # options, commands and configurations, each
_LONGEST = 200  # characters of a value


def provenance(
    groups: Mapping[str, Sequence[StoredRun]], names: Mapping[StoredRun, str]
) -> dict[str, Any]:
    """Return the data of that section of a page, for groups by label and names of runs."""
    rows = differences(list(groups.values())) if len(groups) > 1 else []
    runs = [run for group in groups.values() for run in group]
    origins = {run: origin_of(run.path) for run in runs}
    return {
        "labels": [*groups],
        "differences": [
            [name, [cell[:_LONGEST] for cell in cells]] for name, cells in rows[:_MOST_ROWS]
        ],
        "origins": _origins(origins, names),
        "commands": [
            [names[run], origin["command"]]
            for run, origin in origins.items()
            if "command" in origin
        ][:_MOST_ROWS],
        "configurations": [[label, _configuration(group[0])] for label, group in groups.items()][
            :_MOST_ROWS
        ],
    }


def _origins(
    origins: Mapping[StoredRun, Mapping[str, str]], names: Mapping[StoredRun, str]
) -> list[list[Any]]:
    """Return [facts, runs] for every machine, commit and set of versions that runs share."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run, origin in origins.items():
        facts = tuple((key, value) for key, value in origin.items() if key != "command")
        found.setdefault(facts, []).append(names[run])
    return [[[*map(list, facts)], shared] for facts, shared in found.items() if facts][:_MOST_ROWS]


def _configuration(run: StoredRun) -> str:
    """Return config.yaml without what could draw anything but lines of text."""
    try:
        text = read_text(run.path / "config.yaml")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{run.path}: config.yaml cannot be read ({error}); leave the run out"
        ) from error
    return "\n".join(map(printable, text.splitlines()))
