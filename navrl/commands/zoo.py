"""`navrl zoo`: list the policies that come with navrl, or show the card of one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from navrl.config.command import run_plain
from navrl.config.command_line import columns, command_parser, show
from navrl.config.quoting import shell_line
from navrl.loggers.format import size
from navrl.run.cards import Card, Score, read_card
from navrl.storage.files import to_json
from navrl.storage.find import ZOO, shipped

_EXAMPLES = """  navrl zoo                                       all of them
  navrl zoo combat-league                         how it was trained, how well it does
  navrl zoo combat-league --json                  the same for programs
  navrl replay zoo:combat-league opponent=crank
  navrl evaluate checkpoint=zoo:combat-league opponent=checkpoint:zoo:combat-scripts
  navrl train env=combat agent=ppo init=zoo:combat-league
  navrl reproduce combat-scripts                  train it again and compare"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl zoo`."""
    return run_plain(_parser(), zoo, arguments)


def zoo(options: argparse.Namespace) -> None:
    """Print the table of all cards, or one card."""
    name = options.name
    cards = [read_card(each) for each in ([name] if name else shipped())]
    if options.json:
        found = [card.as_json() for card in cards]
        sys.stdout.write(to_json(found[0] if name else found, indent=2) + "\n")
    elif name:
        show(_described(cards[0]))
    else:
        rows = [("name", "world", "agent", "score", "size", "policy"), *map(_row, cards)]
        show(f"{columns(rows)}\nUse one as {ZOO}<name>; more about one: navrl zoo <name>\n")


def _row(card: Card) -> tuple[str, ...]:
    score = f"{card.objective} {_number(card.scores[0])} {card.scores[0].setting}"
    return (card.name, card.env, card.agent, score, size(card.bytes), card.does)


def _described(card: Card) -> str:
    """Return a card as text."""
    low, high = card.band
    seeds = len(card.other_seeds) + 1
    basis = (
        f"{seeds} seeds" if seeds > 1 else f"one seed: its interval and {card.margin} on each side"
    )
    facts = [
        ("policy", card.does),
        ("world, agent", f"{card.env}, {card.agent}"),
        ("trained by", shell_line(card.command())),
        ("", f"{card.frames:,} frames in {card.minutes:g} minutes on {card.machine}"),
        ("", f"on {card.date} by navrl {card.version}, commit {card.commit}"),
        *((card.objective, f"{_number(score)} {score.setting}") for score in card.scores),
        ("", f"{card.episodes:,} held-out episodes each, most probable actions"),
        ("band", f"{low:.3f} .. {high:.3f} {card.scores[0].setting}, from {basis}"),
        ("file", f"{size(card.bytes)}, sha256 {card.sha256}"),
        ("licence", card.licence),
    ]
    return f"{ZOO}{card.name}\n" + columns([(f"  {name}", text) for name, text in facts])


def _number(score: Score) -> str:
    return f"{score.mean:.3f} ({score.low:.3f}..{score.high:.3f})"


def _parser() -> argparse.ArgumentParser:
    described = (
        "List the policies that come with navrl, or show how one was trained and how well it does."
    )
    parser = command_parser("zoo", described, _EXAMPLES)
    parser.add_argument("name", nargs="?", metavar="NAME", help="show the card of this one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
