"""`navrl runs`: list, show, compare, tag, remove and archive runs, and ask running ones to stop or save."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from navrl.commands.runs_compare import add_compare, compare, separated
from navrl.commands.runs_remove import (
    add_archive,
    add_remove,
    path_of,
    remove_runs,
    shown,
    write_archive,
)
from navrl.config.checks import ConfigError, did_you_mean, printable
from navrl.config.command import run_plain
from navrl.config.command_line import columns, command_parser, show
from navrl.config.quoting import shown_path
from navrl.loggers.format import count, duration, size, value
from navrl.run.notes import change_tags, write_note
from navrl.run.origin import origin_of
from navrl.run.requests import REQUESTS, request
from navrl.run.run_filters import FACTS, fact, require_known, select_runs
from navrl.run.stored_runs import StoredRun, read_description
from navrl.storage.files import to_json
from navrl.storage.info import LATEST, checkpoint_files

_EXAMPLES = """  navrl runs ls                              the runs below outputs and multirun, newest first
  navrl runs ls env=combat 'objective>0.9' --sort objective
  navrl runs show latest                     options, numbers at the end, checkpoints, notes
  navrl runs compare outputs/a outputs/b -- outputs/c outputs/d
  navrl runs tag latest good                 and navrl runs ls tag=good
  navrl runs stop latest                     let a running training save and end
  navrl runs archive latest --to good.tar.gz
  navrl runs rm outputs/combat-ppo/20261118-141133-720c"""
_LIST_EXAMPLES = """  navrl runs ls env=combat state=finished tag=good
  navrl runs ls multirun/combat-ppo agent.discount=0.99 'frames<1e6'
  navrl runs ls 'eval/crank/win>=0.95' --sort objective --json"""
_LONGEST = 60  # characters of a cell
_MOST_LINES = 200
_QUIET = ("time/", "memory/", "sync/", "loss/", "policy/")  # metrics that judge no run


class _Action(NamedTuple):
    """A subcommand: what it does, its arguments and its examples."""

    run: Callable[[argparse.Namespace], int | None]
    help: str
    examples: str
    add: Callable[[argparse.ArgumentParser], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl runs`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    actions = _actions()
    action = actions.get(words[0]) if words else None
    if action is None:
        return run_plain(_overview(actions), lambda options: _refuse(options, actions), words)
    parser = command_parser(f"runs {words[0]}", action.help, action.examples)
    action.add(parser)
    rest = separated(words[1:]) if action.run is compare else words[1:]
    return run_plain(parser, action.run, rest)


def _actions() -> dict[str, _Action]:
    return {
        "ls": _Action(_list, "List runs, newest first.", _LIST_EXAMPLES, _add_list),
        "show": _Action(
            _show,
            "Show the options, environment, numbers at the end, checkpoints and notes of a run.",
            "  navrl runs show latest\n  navrl runs show latest --all",
            _add_show,
        ),
        "compare": _Action(
            compare,
            "Compare groups of runs that are equal but for their seeds.",
            "  navrl runs compare outputs/a outputs/b -- outputs/c outputs/d\n"
            "  navrl runs compare multirun/combat-ppo/20261118-141133\n"
            "  navrl runs compare env=combat --group agent.discount --metric eval/crank/win",
            add_compare,
        ),
        "tag": _Action(
            _tag,
            "Give a run words to find it by.",
            "  navrl runs tag latest good paper\n  navrl runs tag latest paper --remove",
            _add_tag,
        ),
        "note": _Action(
            _note,
            "Replace the note of a run; an empty text removes it.",
            "  navrl runs note latest 'the first that beats crank'",
            _add_note,
        ),
        **{
            name: _Action(
                partial(_request, name=name),
                f"Ask a running training for this: after its iteration it {then}.",
                f"  navrl runs {name} latest",
                _add_request,
            )
            for name, then in REQUESTS.items()
        },
        "rm": _Action(
            remove_runs,
            "Remove runs with all their files, after a question.",
            "  navrl runs rm outputs/combat-ppo/20261118-141133-720c --yes",
            add_remove,
        ),
        "archive": _Action(
            write_archive,
            "Write a run into one compressed file, without links.",
            "  navrl runs archive latest --to good.tar.gz",
            add_archive,
        ),
    }


def _overview(actions: dict[str, _Action]) -> argparse.ArgumentParser:
    width = max(map(len, actions))
    listed = "".join(f"  {name:<{width}}  {action.help}\n" for name, action in actions.items())
    more = "\nMore about an action: navrl runs ACTION --help"
    parser = command_parser(
        "runs", "List, show, compare, tag, stop, remove and archive runs.", f"{_EXAMPLES}\n{more}"
    )
    parser.usage = "%(prog)s ACTION ..."
    parser.epilog = f"actions:\n{listed}\n{parser.epilog}"
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    return parser


def _refuse(options: argparse.Namespace, actions: dict[str, _Action]) -> int:
    known = ", ".join(actions)
    if not options.words:
        raise ConfigError(f"no action is named; expected one of {known} (see: navrl runs --help)")
    word = options.words[0]
    raise ConfigError(
        f"Unknown action '{word}'; expected one of {known}{did_you_mean(word, [*actions])} "
        "(see: navrl runs --help)"
    )


def _add_words(parser: argparse.ArgumentParser, metavar: str, text: str) -> None:
    parser.add_argument("words", nargs="*", metavar=metavar, help=text)


# ---- ls ----


def _add_list(parser: argparse.ArgumentParser) -> None:
    facts = ", ".join(FACTS)
    _add_words(
        parser,
        "FOLDER|FILTER",
        "folders with runs (default: outputs and multirun), and filters KEY=VALUE, !=, >, <, >=, <= of "
        f"{facts}, an option or a metric",
    )
    parser.add_argument(
        "--sort", metavar="KEY", help="largest first: objective, frames, a metric ..."
    )
    parser.add_argument("--reverse", action="store_true", help="turn the order round")
    parser.add_argument("--json", action="store_true", help="print the runs as JSON")


def _list(options: argparse.Namespace) -> int:
    runs = select_runs(options.words)
    runs.sort(key=lambda run: (run.changed or datetime.min.replace(tzinfo=UTC), str(run.path)))
    runs.reverse()
    if options.sort is not None:
        runs = _sorted(runs, options.sort)
    if options.reverse:
        runs.reverse()
    if options.json:
        # json.dumps escapes what to_json leaves: every character that is not ASCII
        sys.stdout.write(json.dumps(json.loads(to_json([_facts(run) for run in runs])), indent=2))
        sys.stdout.write("\n")
        return 0
    head = (
        "run",
        "env",
        "agent",
        "seed",
        "state",
        "frames",
        "objective",
        "measured",
        "age",
        "tags",
    )
    show(columns([head, *map(_row, runs)]) if runs else "no run passes\n")
    return 0


def _sorted(runs: list[StoredRun], key: str) -> list[StoredRun]:
    """Return the runs with the largest number or the first word ahead, those without either at the end."""
    require_known(runs, [key])
    found = [(fact(run, key), run) for run in runs]
    numbers = [(at, run) for at, run in found if type(at) in (int, float) and not math.isnan(at)]
    if numbers:
        ahead = [run for _, run in sorted(numbers, key=lambda pair: pair[0], reverse=True)]
    else:
        words = [
            (str(at)[:_LONGEST], run) for at, run in found if isinstance(at, str | tuple | bool)
        ]
        ahead = [run for _, run in sorted(words, key=lambda pair: pair[0])]
    return [*ahead, *(run for run in runs if run not in ahead)]


def _row(run: StoredRun) -> tuple[str, ...]:
    total = run.total_frames
    frames = count(run.frames) if total is None else f"{count(run.frames)}/{count(total)}"
    cells = (
        shown(run.path),
        run.found.env,
        run.found.agent,
        str(run.found.seed),
        run.state,
        frames,
        _objective(run),
        _measured(run),
        _age(run),
        " ".join(run.notes.tags),
    )
    first, *rest = map(printable, cells)
    return (first, *(cell[:_LONGEST] for cell in rest))


def _objective(run: StoredRun) -> str:
    found = run.objective
    if found is None:
        return "-"
    known = math.isfinite(found.low) and math.isfinite(found.high)
    interval = f" ({value(found.low)}..{value(found.high)})" if known else ""
    return f"{run.found.objective} {value(found.value)}{interval}"


def _measured(run: StoredRun) -> str:
    """Return how the objective was measured: numbers of training are no result."""
    if run.objective is None:
        return "-"
    source = run.objective.source
    if source.startswith("episode/"):
        return "in training"
    if source.count("/") == 1:
        return "held out, on the way"
    return f"final, {source.split('/')[1]}" if "/" in source else source


def _age(run: StoredRun) -> str:
    if run.changed is None:
        return "-"
    return duration(max(0.0, (datetime.now(UTC) - run.changed).total_seconds()))


def _facts(run: StoredRun) -> dict[str, Any]:
    objective = run.objective
    return {
        "run": shown_path(run.path),
        "env": run.found.env,
        "agent": run.found.agent,
        "seed": run.found.seed,
        "state": run.state,
        "reason": str(run.found.status.get("reason", ""))[:1000],
        "frames": run.frames,
        "total_frames": run.total_frames,
        "objective": None
        if objective is None
        else {"name": run.found.objective, **objective._asdict()},
        "changed": None if run.changed is None else run.changed.isoformat(),
        "tags": run.notes.tags,
        "note": run.notes.note,
    }


# ---- show ----


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default=LATEST, metavar="RUN", help="default: latest")
    parser.add_argument("--all", action="store_true", help="every metric, also of losses and times")


def _show(options: argparse.Namespace) -> int:
    path = path_of(options.name)
    run = StoredRun(read_description(path))
    reason = str(run.found.status.get("reason", ""))[:500]
    total = "" if run.total_frames is None else f" of {run.total_frames:,}"
    lines = [
        ("run", shown(path)),
        ("world", f"{run.found.env} with {run.found.agent}, seed {run.found.seed}"),
        ("state", f"{run.state}{f': {reason}' if reason else ''}"),
        ("frames", f"{run.frames:,}{total}"),
        ("objective", f"{_objective(run)}, {_measured(run)}" if run.objective else "-"),
        ("age", _age(run)),
        ("tags", " ".join(run.notes.tags) or "-"),
        ("note", run.notes.note or "-"),
        *(origin_of(path) or {"machine": "-"}).items(),
    ]
    show(columns([(name, printable(text)) for name, text in lines]))
    words = (
        "\n".join(f"  {printable(word)[:200]}" for word in run.found.overrides[:_MOST_LINES])
        or "  none"
    )
    show(f"\noptions that were typed\n{words}\n")
    metrics = [
        (f"  {name}", value(at))
        for name, at in sorted(run.metrics.items())
        if (options.all or not name.startswith(_QUIET)) and not math.isnan(at)
    ]
    show(f"\nnumbers at the end\n{columns(metrics[:_MOST_LINES]) if metrics else '  none'}\n")
    show(f"checkpoints\n{_checkpoints(path)}")
    return 0


def _checkpoints(path: Path) -> str:
    folder = path / "checkpoints"
    if folder.is_symlink() or not folder.is_dir() or not checkpoint_files(folder):
        return "  none\n"
    from navrl.commands.checkpoint import entries  # and with it torch, which takes seconds

    rows = []
    for entry in entries(str(path.absolute())):
        facts = entry.facts
        if isinstance(facts, str):
            rows.append((f"  {printable(entry.path.name)}", facts, "", ""))
            continue
        score = "no score" if facts.score is None else f"score {facts.score:.4g}"
        frames = f"{facts.frames:,} frames"
        rows.append((f"  {printable(entry.path.name)}", frames, score, size(entry.size)))
    return columns(rows)


# ---- tag, note ----


def _add_tag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="latest, or the folder of a run")
    parser.add_argument("words", nargs="+", metavar="WORD", help="letters, digits and . _ + -")
    parser.add_argument("--remove", action="store_true", help="take the words away")


def _tag(options: argparse.Namespace) -> int:
    path = path_of(options.name)
    notes = change_tags(path, options.words, remove=options.remove)
    show(f"{shown(path)}: {' '.join(notes.tags) or 'no tags'}\n")
    return 0


def _add_note(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="latest, or the folder of a run")
    parser.add_argument("text", nargs="+", metavar="TEXT", help="up to 2,000 characters")


def _note(options: argparse.Namespace) -> int:
    path = path_of(options.name)
    notes = write_note(path, " ".join(options.text))
    show(f"{shown(path)}: {printable(notes.note) or 'no note'}\n")
    return 0


# ---- stop, save, evaluate ----


def _add_request(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="latest, or the folder of a run")


def _request(options: argparse.Namespace, name: str) -> int:
    path = path_of(options.name)
    request(path, name)
    show(f"{shown(path)}: after its iteration it {REQUESTS[name]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
