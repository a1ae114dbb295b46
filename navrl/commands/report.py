"""`navrl report`: write the curves of one run or several as one HTML page, and as tables."""

from __future__ import annotations

import argparse
import csv
import io
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from navrl.config.checks import ConfigError
from navrl.config.command import run_plain
from navrl.config.command_line import command_parser, show
from navrl.storage.files import make_directory, to_json, write_atomically
from navrl.storage.find import OUTPUTS, find_place
from navrl.view.figure import check_viz
from navrl.view.html import REPORT, page
from navrl.view.report_charts import Run
from navrl.view.report_figures import write_figures
from navrl.view.run_report import read_runs, report_of

_EXAMPLES = """  navrl report latest                                the newest run
  navrl report multirun/combat-ppo/20261118-141133   a sweep: mean and 95 % interval over its seeds
  navrl report outputs/one outputs/other --output both
  navrl report latest --figures paper/figures         every chart as SVG and PDF"""
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")  # by these a spreadsheet knows one
_TABLES: dict[str, Callable[[str], bool]] = {
    "iterations.csv": lambda name: True,
    "episodes.csv": lambda name: name.startswith(("episode/", "eval/")),
    "reward_components.csv": lambda name: name.startswith(("reward/", "eval/reward_")),
}


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
    parser.add_argument(
        "--figures",
        type=Path,
        metavar="FOLDER",
        help="also every chart as SVG and PDF, for papers; needs navrl[viz]",
    )
    return run_plain(parser, _write_report, arguments)


def _write_report(options: argparse.Namespace) -> None:
    places = [find_place(name, OUTPUTS) for name in options.runs]
    records = read_runs(places)
    data = report_of(records, places)
    if options.figures is not None:
        check_viz()
    folder = options.output or (places[0] if len(places) == 1 else Path()) / "report"
    for flag, named in (("--output", folder), ("--figures", options.figures)):
        if named is not None and not named.absolute().parent.is_dir():
            raise ConfigError(
                f"{flag} {named}; expected a folder in an existing one; change {flag}"
            )
    if options.output is None:
        make_directory(folder)
    folder.mkdir(exist_ok=True)  # or a link of the user's own
    runs = [record.run for record in records]
    write_atomically(folder / "report.html", page(REPORT, data))
    for name, wanted in _TABLES.items():
        write_atomically(folder / name, _table(runs, wanted))
    skills = {run.name: _columns(run, "skill/") for run in runs}
    if any(skills.values()):
        write_atomically(folder / "skill_usage.json", to_json(skills) + "\n")
    iterations = sum(len(run.rows) for run in runs)
    show(f"wrote {folder / 'report.html'} and tables beside it ({iterations} iterations)\n")
    if options.figures is not None:
        options.figures.mkdir(exist_ok=True)
        written = write_figures(data, options.figures)
        show(f"wrote {len(written)} figures to {options.figures}\n")


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
