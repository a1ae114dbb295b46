"""The origin of a run (command, commit, versions, machine), and the options in which runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from navrl.config.checks import printable
from navrl.run.run_filters import as_text
from navrl.run.stored_runs import NO_DIFFERENCE, StoredRun
from navrl.storage.files import read_json

_LONGEST_COMMAND = 500  # characters
_LONGEST = 300
_LONGEST_KEY = 80


def origin_of(path: Path) -> dict[str, str]:
    """Return command, commit, machine and packages of a run by these names, as it has written them."""
    try:
        found = read_json(path / "environment.json")
        changed = " with changes" if found["git"] and found["git"]["dirty"] else ""
        commit = f"{found['git']['commit']}{changed}" if found["git"] else "-"
        packages = " ".join(f"{name} {version}" for name, version in found["packages"].items())
        return {
            "command": printable(found["command"])[:_LONGEST_COMMAND],
            "commit": printable(commit)[:_LONGEST_KEY],
            "machine": printable(
                f"{found['device']}, {found['cpu']}, threads {found['threads']}, {found['platform']}"
            )[:_LONGEST],
            "packages": printable(f"python {found['python']} {packages}")[:_LONGEST],
        }
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {"machine": "environment.json cannot be read"}


def options_of(run: StoredRun) -> dict[str, str]:
    """Return the options that may change a result, as text."""
    return {
        name: as_text(value)
        for name, value in run.items.items()
        if name.partition(".")[0] not in NO_DIFFERENCE
    }


def differences(groups: Sequence[Sequence[StoredRun]]) -> list[tuple[str, list[str]]]:
    """Return the options in which groups of runs differ, each with its values by group."""
    found = [[options_of(run) for run in group] for group in groups]
    names = dict.fromkeys(name for options in found for each in options for name in each)
    rows = []
    for name in names:
        values = [sorted({each.get(name, "-") for each in options}) for options in found]
        if any(each != values[0] for each in values):
            cells = [printable(", ".join(each)) for each in values]
            rows.append((printable(name)[:_LONGEST_KEY], cells))
    return rows
