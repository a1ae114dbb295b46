"""`navrl gallery`: write replays, curves and leagues of runs and policies as a folder to publish."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from navrl.commands.replay import replay_of, titles_of
from navrl.config.checks import ConfigError, printable, require_whole
from navrl.config.command import run_plain
from navrl.config.command_line import Setting, command_parser, show, take_words
from navrl.loggers.format import count, size
from navrl.run.build import build_env
from navrl.run.cards import Card, read_card
from navrl.run.device import MOST_ENVS
from navrl.run.policies import build_policy, find_policy
from navrl.run.stored_runs import is_run_folder, runs_in
from navrl.selfplay.league_table import league_of
from navrl.storage.checkpoint import load
from navrl.storage.find import OUTPUTS, ZOO, CheckpointNotFound, find, find_place
from navrl.view.gallery import Entry, Gallery, Page, plain
from navrl.view.html import REPORT, page
from navrl.view.matrix import svg
from navrl.view.run_report import Record, read_runs, report_of

_POSITIONAL = (
    "RUN",
    "latest | a run directory | a checkpoint | zoo:<name>, any number; default: latest",
)
_SETTINGS = {
    "num_episodes": Setting(64, "played by each policy, of which the best are shown; default: 64"),
    "seed": Setting(1_000_003, "of the episodes; default: 1000003, that of navrl evaluate"),
}
_EXAMPLES = """  navrl gallery                                   the latest run, into gallery/
  navrl gallery latest zoo:combat-league zoo:navigation --into public
  navrl gallery outputs/combat-ppo/* num_episodes=256"""
_MOST_NAMES = 50


class _Replays(NamedTuple):
    """The replays of a policy, and who flew."""

    title: str
    pages: list[Page]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl gallery`."""
    parser = command_parser(
        "gallery",
        "Write the best replays, the curves and the leagues of runs and policies as a folder of pages that "
        "needs no server and asks for nothing elsewhere.",
        _EXAMPLES,
        positional=_POSITIONAL,
        settings=_SETTINGS,
    )
    parser.add_argument(
        "--into", type=Path, default=Path("gallery"), metavar="FOLDER", help="default: gallery"
    )
    return run_plain(parser, gallery, arguments)


def gallery(options: argparse.Namespace) -> None:
    """Play every policy, write the pages of all and their index."""
    take_words(options, _SETTINGS, positionals=None)
    if options.overrides:
        raise ConfigError(
            f"{options.overrides[0]}: a gallery shows policies in the worlds that they were trained in; "
            "expected num_episodes= or seed=; leave it out"
        )
    require_whole("num_episodes", options.num_episodes, 1, MOST_ENVS)
    require_whole("seed", options.seed, 0)
    if not options.into.absolute().parent.is_dir():
        raise ConfigError(
            f"--into {options.into}; expected a folder in an existing one; change --into"
        )
    found = _places(options.positionals or ["latest"])  # before anything is played
    made = Gallery(options.into)
    for name, place in found:
        made.add(_entry(name, place, options))
    number = f"{len(found)} runs and policies" if len(found) > 1 else "one policy"
    index = made.finish(title="Gallery", subtitle=f"{number}: replays, curves, leagues")
    total = sum(path.stat().st_size for path in made.written)
    show(f"wrote {index} and {len(made.written) - 1} pages beside it ({size(total)})\n")


def _places(names: Sequence[str]) -> list[tuple[str, Path]]:
    """Return every run and policy once, with its place; a folder such as a sweep's stands for its runs."""
    found: dict[Path, str] = {}
    for name in names:
        place = find_place(name, OUTPUTS)
        for run in runs_in(place) if place.is_dir() else [place]:
            found.setdefault(run.resolve(), name if run == place else str(run))
    if len(found) > _MOST_NAMES:
        raise ConfigError(
            f"{len(found)} runs and policies; expected {_MOST_NAMES} at most; name fewer"
        )
    return [(name, place) for place, name in found.items()]


def _entry(name: str, place: Path, options: argparse.Namespace) -> Entry:
    sys.stderr.write(
        f"{printable(name)}: making the env, then playing {options.num_episodes} episodes\n"
    )
    sys.stderr.flush()
    if name.startswith(ZOO):
        card = read_card(name.removeprefix(ZOO))
        return _of_card(card, _replays(name, options))
    if not is_run_folder(place):
        replays = _replays(name, options)
        return Entry(plain(place.stem), plain(replays.title), [], replays.pages)
    (record,) = read_runs([place])
    data = report_of([record], [Path(place.name)])
    pages = [Page("report.html", page(REPORT, data), "report", "curves, configuration, origin")]
    with contextlib.suppress(CheckpointNotFound):  # a run that has saved nothing has its curves
        pages = [*_replays(str(place), options).pages, *pages]
    learning = next((part for part in data["sections"] if part["title"] == "Learning"), None)
    return Entry(
        title=plain(f"{place.parent.name} {place.name}"),
        about=_about(record),
        scores=[data["badge"]] if data["badge"] else [],
        pages=pages,
        curve=learning["charts"][0] if learning and learning["charts"] else None,
        frames=data["frames"],
        league=_league(place),
    )


def _about(record: Record) -> str:
    found = record.stored.found
    return plain(
        f"{found.env} with {found.agent}, seed {found.seed}, {count(record.run.frames)} frames"
    )


def _of_card(card: Card, replays: _Replays) -> Entry:
    """Return the entry of a policy that comes along."""
    scores = [
        f"{card.objective} {each.mean:.3g} ({each.low:.3g}..{each.high:.3g}), {each.setting}, "
        f"{card.episodes} episodes"
        for each in card.scores
    ]
    made = f"{card.env} with {card.agent}, {count(card.frames)} frames: {' '.join(card.command())}"
    return Entry(card.name, f"{card.does} {made}", scores, replays.pages)


def _replays(name: str, options: argparse.Namespace) -> _Replays:
    """Play the episodes of a policy, and return the pages of those that are worth a look."""
    config, state, label, choices = find_policy(name, device="cpu")
    env = build_env(config, num_envs=options.num_episodes, seed=options.seed, compile_mode="off")
    with contextlib.closing(env):
        policy = build_policy(name, config, state, env)
        torch.manual_seed(options.seed)
        pilot, setting = titles_of(config, state, label, choices)
        played = replay_of(config)(env, policy, first=0, pilot=pilot, setting=setting)
        return _Replays(played.title, list(_pages(played, options.seed)))


def _pages(played: Any, seed: int) -> Iterator[Page]:
    for kind, index in played.highlights().items():
        text = played.page(index, seed=f"seed {seed}", episode=f"episode {index}")
        others = f", and all {len(played.endings)} episodes" if played.shows_all else ""
        shown = f"{played.outcome(index)}{others}"
        yield Page(f"{kind.replace(' ', '-')}.html", text, kind, plain(shown))


def _league(place: Path) -> str | None:
    """Return the matrix of the league that a run has played, None of a run without one."""
    try:
        return svg(league_of(load(find(str(place), OUTPUTS)), place.name))
    except (ConfigError, CheckpointNotFound):
        return None


if __name__ == "__main__":
    sys.exit(main())
