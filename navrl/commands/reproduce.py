"""`navrl reproduce`: train a policy that comes with navrl again, and compare its score with the card's."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from navrl.config.checks import ConfigError, require_writable
from navrl.config.command import run_plain
from navrl.config.command_line import columns, command_parser, show, take_words
from navrl.config.compose import compose_all
from navrl.config.quoting import override, shell_line
from navrl.run.cards import Card, measure, read_card
from navrl.run.device import prepare_process
from navrl.run.intervals import Interval
from navrl.run.supervisor import supervise
from navrl.storage.files import to_json, write_atomically
from navrl.storage.find import ZOO, shipped

_POSITIONAL = ("NAME", "a policy of `navrl zoo`")
_OVERRIDES = "options of navrl train, on top of the card's, such as seed=7"
_EXAMPLES = """  navrl reproduce combat-scripts             its command, then its evaluation; minutes
  navrl reproduce combat-scripts seed=7      another seed
  navrl reproduce combat-scripts --check     only evaluate the file that comes with navrl; seconds"""
Bounds = Mapping[str, tuple[float, float]]  # of the scores that are judged, by setting


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl reproduce`."""
    return run_plain(_parser(), reproduce, arguments)


def reproduce(options: argparse.Namespace) -> int:
    """Train and evaluate, or only evaluate; return 1 if a score lies outside of its bounds."""
    take_words(options, {}, positionals=1)
    if not options.positionals:
        raise ConfigError(f"no policy is named; expected one of {', '.join(shipped())}; name one")
    card = read_card(options.positionals[0].removeprefix(ZOO))
    require_writable(options.json, "--json")
    if options.check:
        return _check(card, options)
    words = [*card.command(), *options.overrides]
    folder = Path(compose_all("train", words[2:]).hydra.run.dir)
    show(f"{shell_line(words)}\n")
    sys.stdout.flush()
    last = override("hydra.run.dir", folder)
    code = supervise([sys.executable, "-m", "navrl.train", *words[2:], last], folder, restarts=0)
    if code:
        return code
    return _judge(card, str(folder), {card.scores[0].setting: card.band}, options.json)


def _check(card: Card, options: argparse.Namespace) -> int:
    """Evaluate the file itself; on another machine a few of its episodes may end otherwise."""
    if options.overrides:
        raise ConfigError(
            f"--check trains nothing, and got {options.overrides[0]}; expected no options of a training; "
            "leave them out"
        )
    intervals = {score.setting: (score.low, score.high) for score in card.scores}
    return _judge(card, f"{ZOO}{card.name}", intervals, options.json)


def _judge(card: Card, policy: str, bounds: Bounds, output: Path | None) -> int:
    """Evaluate a policy in the episodes of the card, and print whether its scores lie within the bounds."""
    prepare_process(1)
    show(f"evaluating {policy}, {card.episodes:,} episodes each\n")
    sys.stdout.flush()
    measured = measure(policy, card)
    outside = [
        name for name, (low, high) in bounds.items() if not low <= measured[name].mean <= high
    ]
    show(_table(card, measured, bounds))
    if outside:
        show(
            f"not reproduced: {card.objective} {', '.join(outside)} lies outside of what is expected\n"
        )
    else:
        show(f"reproduced: {card.objective} lies within what is expected\n")
    if output is not None:
        write_atomically(output, to_json(_record(card, policy, measured, bounds), indent=2) + "\n")
        show(f"wrote {output}\n")
    return int(bool(outside))


def _table(card: Card, measured: Mapping[str, Interval], bounds: Bounds) -> str:
    rows: list[tuple[str, ...]] = [(card.objective, "card", "here", "expected")]
    for score in card.scores:
        here = measured[score.setting]
        low, high = bounds.get(score.setting, (None, None))
        expected = "" if low is None else f"{low:.3f} .. {high:.3f}"
        shown = (f"{each.mean:.3f} ({each.low:.3f}..{each.high:.3f})" for each in (score, here))
        rows.append((score.setting, *shown, expected))
    return columns(rows)


def _record(
    card: Card, policy: str, measured: Mapping[str, Interval], bounds: Bounds
) -> dict[str, Any]:
    """Return the outcome for programs."""
    return {
        "card": card.as_json(),
        "policy": policy,
        "scores": {name: interval._asdict() for name, interval in measured.items()},
        "expected": bounds,
    }


def _parser() -> argparse.ArgumentParser:
    described = (
        "Train a policy that comes with navrl again by the command of its card, evaluate it in the same "
        "episodes, and print whether its score lies within the band of the card; 1 if not."
    )
    parser = command_parser(
        "reproduce", described, _EXAMPLES, positional=_POSITIONAL, overrides=_OVERRIDES
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="train nothing: evaluate the file that comes with navrl",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
