"""`navrl report`: write the curves of one run or several as one HTML page, and as tables."""

from __future__ import annotations

import argparse
import csv
import io
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from navrl.config.checks import ConfigError, printable
from navrl.config.command import run_plain
from navrl.config.command_line import command_parser, show
from navrl.loggers.format import count
from navrl.loggers.jsonl import read_iterations
from navrl.run.stored_runs import NO_DIFFERENCE, Description, read_description, runs_in, short_names
from navrl.storage.files import make_directory, to_json, write_atomically
from navrl.storage.find import OUTPUTS, find_place
from navrl.view.html import REPORT, page
from navrl.view.report import Run, report

_EXAMPLES = """  navrl report latest                                the newest run
  navrl report multirun/combat-ppo/20261118-141133   a sweep: mean and deviation over its seeds
  navrl report outputs/one outputs/other --output both"""
_KIND = ("env", "agent")  # overrides that are in the label already
_LONGEST_LABEL = 500  # characters
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")  # by these a spreadsheet knows one
_TABLES: dict[str, Callable[[str], bool]] = {
    "iterations.csv": lambda name: True,
    "episodes.csv": lambda name: name.startswith(("episode/", "eval/")),
    "reward_components.csv": lambda name: name.startswith(("reward/", "eval/reward_")),
}


class _Record(NamedTuple):
    """The contents of a run's folder."""

    path: Path
    env: str
    agent: str
    overrides: list[str]
    run: Run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl report`."""
    described = "Write the curves of runs as one page for any browser, and as CSV files."
    parser = command_parser("report", described, _EXAMPLES)
    parser.add_argument(
        "runs", nargs="+", help="latest, a run, or a folder with runs such as a sweep's"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="default: report/ in the named folder, or in this one if several are named",
    )
    return run_plain(parser, _write_report, arguments)


def _write_report(options: argparse.Namespace) -> None:
    places = [find_place(name, OUTPUTS) for name in options.runs]
    paths = list(dict.fromkeys(path for place in places for path in runs_in(place)))
    records = _labelled([_read(path) for path in paths])
    _require_rows(records)
    folder = options.output or (places[0] if len(places) == 1 else Path()) / "report"
    if not folder.absolute().parent.is_dir():
        raise ConfigError(
            f"--output {folder}; expected a folder in an existing one; change --output"
        )
    if options.output is None:
        make_directory(folder)
    folder.mkdir(exist_ok=True)  # or a link of the user's own
    runs = [record.run for record in records]
    envs = " and ".join(dict.fromkeys(record.env for record in records))
    agents = " and ".join(dict.fromkeys(record.agent for record in records))
    number = f"{len(runs)} runs of " if len(runs) > 1 else ""
    frames = max(run.frames for run in runs)
    data = report(
        runs,
        title=f"{number}{envs} with {agents}",
        subtitle=f"{', '.join(map(str, places))}: {count(frames)} frames",
    )
    write_atomically(folder / "report.html", page(REPORT, data))
    for name, wanted in _TABLES.items():
        write_atomically(folder / name, _table(runs, wanted))
    skills = {run.name: _columns(run, "skill/") for run in runs}
    if any(skills.values()):
        write_atomically(folder / "skill_usage.json", to_json(skills) + "\n")
    iterations = sum(len(run.rows) for run in runs)
    show(f"wrote {folder / 'report.html'} and tables beside it ({iterations} iterations)\n")


def _read(path: Path) -> _Record:
    """Read a run; late metrics join the row of their iteration."""
    log = path / "metrics.jsonl"
    rows = read_iterations(log) if log.exists() else []
    found = read_description(path)
    run = Run(
        name=str(path),
        label="",
        seed=found.seed,
        state=_state(found),
        objective=found.objective,
        rows=rows,
        summary=found.summary,
    )
    return _Record(path, found.env, found.agent, found.overrides, run)


def _state(found: Description) -> str:
    """Return the state of a run, and why it failed."""
    reason = printable(str(found.status.get("reason", "")))
    text = f"{found.state}: {reason}" if found.state == "failed" else found.state
    return text[:_LONGEST_LABEL]


def _require_rows(records: Sequence[_Record]) -> None:
    """Raise ConfigError if no run has logged anything."""
    if not any(record.run.rows for record in records):
        first = records[0]
        others = f", and so have {len(records) - 1} others" if len(records) > 1 else ""
        raise ConfigError(
            f"{first.path} has logged nothing yet ({first.run.state}){others}; expected an iteration or "
            "more; name another run"
        )


def _labelled(records: Sequence[_Record]) -> list[_Record]:
    """Label every run with its agent, its env if they differ, and the overrides of its own."""
    everywhere = set.intersection(*(set(record.overrides) for record in records))
    envs = {record.env for record in records}
    names = short_names([record.path for record in records])

    def label(record: _Record) -> str:
        own = [word for word in record.overrides if word not in everywhere and _distinguishes(word)]
        where = [] if len(envs) == 1 else [record.env]
        return printable(" ".join([*where, record.agent, *own]))[:_LONGEST_LABEL]

    return [
        record._replace(run=record.run._replace(label=label(record), name=printable(name)))
        for record, name in zip(records, names, strict=True)
    ]


def _distinguishes(override: str) -> bool:
    """Return true if the override may distinguish runs and is not part of the label already."""
    key = override.partition("=")[0].lstrip("+~")
    return key not in _KIND and key.partition(".")[0] not in NO_DIFFERENCE


def _table(runs: Sequence[Run], wanted: Callable[[str], bool]) -> str:
    """Return a CSV table with a row for each iteration that has one of the wanted metrics."""
    place = ("iteration", "frames")
    names = dict.fromkeys(
        key for run in runs for row in run.rows for key in row if key not in place
    )
    columns = [name for name in names if wanted(name)]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(map(_text, ["run", "label", "seed", *place, *columns]))
    for run in runs:
        names_of_run = _text(run.name), _text(run.label)
        for row in run.rows:
            cells = [_cell(row.get(name)) for name in columns]
            if any(cells):
                where = [int(row[name]) for name in place]
                table.writerow([*names_of_run, run.seed, *where, *cells])
    return text.getvalue()


def _text(text: str) -> str:
    """Return text for a cell that no spreadsheet takes for a formula, which could start a program."""
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def _cell(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(value)


def _columns(run: Run, start: str) -> dict[str, list[float | None]]:
    """Return the metrics with this prefix, iteration by iteration, and their frames."""
    names = dict.fromkeys(key for row in run.rows for key in row if key.startswith(start))
    if not names:
        return {}
    columns = {name.removeprefix(start): [row.get(name) for row in run.rows] for name in names}
    return {"frames": [row["frames"] for row in run.rows], **columns}


if __name__ == "__main__":
    sys.exit(main())
