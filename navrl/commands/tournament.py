"""navrl tournament: every scripted pilot plays every other, and tables say who beats whom."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.config.checks import ConfigError
from navrl.config.command import run_plain
from navrl.config.compose import build, compose, group_option
from navrl.envs.combat.match import play_both_ways
from navrl.envs.combat.opponents.base import Pilot
from navrl.envs.core import random
from navrl.loggers.format import duration
from navrl.run.options import check_writable, fight_params, pick_device, prepare_process
from navrl.run.policies import scripted_option
from navrl.selfplay.payoff import Payoff
from navrl.selfplay.strengths import Rating, bradley_terry
from navrl.storage.files import to_json as json_text
from navrl.storage.files import write_atomically
from navrl.view.matrix import svg

_EVALUATION_SEED = 1_000_003  # the episodes of `navrl evaluate`
_EXAMPLES = """examples:
  navrl tournament
  navrl tournament --pilots crank,phase2,phase3 --episodes 200
  navrl tournament --markdown table.md --svg table.svg --json table.json
  navrl tournament scenario=game28 env.sim.channels=2
  navrl tournament --pilots crank,phase3 --variant rash crank fire_fraction=[1.4,1.5]"""


class Result(NamedTuple):
    """What came of one pairing, as the row sees it."""

    row: str
    column: str
    wins: int
    draws: int
    losses: int
    row_launches: float  # missiles an episode
    column_launches: float
    length_s: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of `navrl tournament`."""
    return run_plain(_parser(), tournament, arguments)


def tournament(options: argparse.Namespace) -> None:
    """The command."""
    _check(options)
    config = compose("train", options.overrides)
    prepare_process(config.threads)
    device = pick_device(config.device)
    params = fight_params(config)
    scenario = build(config.env.scenario).checked()
    scenario.to(device)
    pilots = _pilots(options)
    for pilot in pilots.values():
        pilot.prepare(params, device)
    key = _episode_keys(options.seed, options.episodes, device)
    pairs, results = list(itertools.combinations(pilots, 2)), []
    try:
        for row, column in _told(pairs):
            ends = play_both_ways(params, scenario, (pilots[row], pilots[column]), key)
            results.append(_result(row, column, ends))
    except KeyboardInterrupt:
        if results:  # hours, perhaps; the files are for whole tables
            met = [name for name in pilots if any(name in result[:2] for result in results)]
            sys.stdout.write(f"\n{markdown(met, results)}")
        raise KeyboardInterrupt(
            f"{len(results)} of {len(pairs)} pairs played, no file written"
        ) from None
    _report(options, list(pilots), results)


def _result(row: str, column: str, ends: Tensor) -> Result:
    sign = ends[0]
    counts = [int((sign == value).sum()) for value in (1.0, 0.0, -1.0)]
    return Result(row, column, *counts, *ends[1:].mean(1).tolist())


# ------------------------------------------------------------------ what is said


def standings(pilots: Sequence[str], results: Sequence[Result]) -> tuple[Payoff, dict[str, Rating]]:
    """The games of everybody, and the ratings that explain them best."""
    payoff = Payoff(pilots)
    for result in results:
        payoff.record(result.row, result.column, result.wins, result.draws, result.losses)
    return payoff, bradley_terry(payoff)


def markdown(pilots: Sequence[str], results: Sequence[Result]) -> str:
    """Two tables: win, draw and loss of row against column in percent, then strength and missiles."""
    payoff, ratings = standings(pilots, results)
    cells = [
        [_cell(payoff, row, column) if row != column else "" for column in pilots] for row in pilots
    ]
    lines = _table(["win / draw / loss, %", *pilots], zip(pilots, cells, strict=True))
    strongest = sorted(pilots, key=lambda name: -ratings[name].points)
    rated = []
    for name in strongest:
        rating = ratings[name]
        half = (rating.high - rating.low) / 2.0
        rated.append([f"{rating.points:.0f} ± {half:.0f}", f"{_launches(name, results):.1f}"])
    rows = zip(strongest, rated, strict=True)
    lines += ["", *_table(["pilot", "rating", "missiles an episode"], rows)]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Iterator[tuple[str, list[str]]] | Any) -> list[str]:
    """Aligned, so that it reads well before it is rendered."""
    cells = [list(head), *([name, *row] for name, row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return [lines[0], rule, *lines[1:]]


def _cell(payoff: Payoff, row: str, column: str) -> str:
    record = payoff.results(row, column)
    if not record.games:
        return "-"
    return " / ".join(f"{100.0 * count / record.games:.0f}" for count in record)


def _launches(name: str, results: Sequence[Result]) -> float:
    found = [r.row_launches for r in results if r.row == name]
    found += [r.column_launches for r in results if r.column == name]
    return sum(found) / len(found)


def _report(options: argparse.Namespace, pilots: list[str], results: list[Result]) -> None:
    payoff, ratings = standings(pilots, results)
    text = markdown(pilots, results)
    sys.stdout.write(f"{options.episodes} episodes a pair, seed {options.seed}\n\n{text}")
    written = {
        options.markdown: text,
        options.svg: svg(payoff),
        options.json: json_text(_record(options, results, ratings), indent=2) + "\n",
    }
    for path, content in written.items():
        if path is not None:
            write_atomically(path, content)
            sys.stdout.write(f"wrote {path}\n")


def _record(
    options: argparse.Namespace, results: list[Result], ratings: Mapping[str, Rating]
) -> dict[str, Any]:
    return {
        "episodes": options.episodes,
        "seed": options.seed,
        "overrides": options.overrides,
        "variants": options.variant,
        "results": [result._asdict() for result in results],
        "ratings": {name: rating._asdict() for name, rating in ratings.items()},
    }


def _told(pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The pairs, each announced on stderr with the time that is left."""
    started = time.monotonic()
    live = sys.stderr.isatty()
    for done, (row, column) in enumerate(pairs):
        left_s = (time.monotonic() - started) / done * (len(pairs) - done) if done else None
        eta = "" if left_s is None else f" | eta {duration(left_s)}"
        line = f"pair {done + 1}/{len(pairs)} | {row} against {column}{eta}"
        sys.stderr.write(f"\r{line}\x1b[K" if live else f"{line}\n")
        sys.stderr.flush()
        yield row, column
    if live:
        sys.stderr.write("\r\x1b[K")


# ------------------------------------------------------------------ what is asked


def _episode_keys(seed: int, episodes: int, device: torch.device) -> Tensor:
    """The same episodes for every pair, so that no pair has the luck of the draw."""
    env_ids = torch.arange(episodes, device=device)
    return random.episode_key(torch.full_like(env_ids, seed), env_ids, torch.zeros_like(env_ids))


def _pilots(options: argparse.Namespace) -> dict[str, Pilot]:
    """Those asked for, or all that opponent=scripts knows, and the variants."""
    wanted = options.pilots
    names = (
        list(group_option("opponent", "scripts").pilots) if wanted is None else wanted.split(",")
    )
    variants = {words[0]: words[1:] for words in options.variant}
    if len({*names, *variants}) < max(2, len(names) + len(options.variant)):
        raise ConfigError(
            f"the pilots are {', '.join([*names, *(words[0] for words in options.variant)])}; "
            "expected two or more different names; change --pilots or --variant"
        )
    if not all(variants.values()):
        raise ConfigError(
            "--variant lacks a pilot; expected NAME PILOT KEY=VALUE, "
            "as in rash crank fire_fraction=[1.4,1.5]; change --variant"
        )
    made = {name: build(scripted_option("opponent", name)) for name in names}
    for name, (pilot, *changes) in variants.items():
        scripted_option("opponent", pilot)
        overrides = [f"opponent={pilot}", *(f"opponent.{change}" for change in changes)]
        made[name] = build(compose("train", overrides).opponent)
    return made


def _check(options: argparse.Namespace) -> None:
    """Raise about what can be seen to be wrong before anything is played."""
    for name, least in (("episodes", 2), ("seed", 0)):
        if getattr(options, name) < least:
            raise ConfigError(
                f"--{name} {getattr(options, name)}; expected {least} or more; change --{name}"
            )
    for kind in ("json", "markdown", "svg"):
        if getattr(options, kind) is not None:
            check_writable(getattr(options, kind), f"--{kind}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="navrl tournament",
        description="Let every scripted pilot play every other; says who wins, and how strong each is.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="options of the fight, as for navrl train: env.sim.channels=2",
    )
    parser.add_argument(
        "--pilots", metavar="A,B,C", help="names in conf/opponent; default: all of opponent=scripts"
    )
    parser.add_argument(
        "--variant",
        action="append",
        nargs="+",
        default=[],
        metavar=("NAME", "PILOT KEY=VALUE"),
        help="another pilot: PILOT with other thresholds, called NAME; may be given several times",
    )
    parser.add_argument(
        "--episodes",
        type=int,
        default=1000,
        help="of each pair, half of them with seats exchanged; default: 1000",
    )
    parser.add_argument("--seed", type=int, default=_EVALUATION_SEED, help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also the numbers")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also the tables, as text")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also a heat map")
    return parser


if __name__ == "__main__":
    sys.exit(main())
