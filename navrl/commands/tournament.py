"""`navrl tournament`: let every pilot, scripted or trained, play every other; print results and ratings."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl.config.checks import ConfigError, require_whole, require_writable
from navrl.config.command import run_plain
from navrl.config.command_line import Setting, command_parser, take_words
from navrl.config.compose import build, compose, group_option, group_options
from navrl.envs.combat.match import play_both_ways
from navrl.envs.combat.opponents.base import Pilot
from navrl.envs.combat.opponents.frozen import Frozen
from navrl.envs.core import random
from navrl.loggers.format import duration
from navrl.run.build import combat_params, install_policy
from navrl.run.device import pick_device, prepare_process
from navrl.run.policies import scripted_option
from navrl.selfplay.payoff import Payoff
from navrl.selfplay.ratings import Rating, bradley_terry
from navrl.storage.files import to_json as json_text
from navrl.storage.files import write_atomically
from navrl.storage.find import OUTPUTS, ZOO, CheckpointNotFound, find
from navrl.storage.info import BEST, LATEST
from navrl.view.matrix import svg

_SETTINGS = {
    "pilots": Setting(
        (),
        "names in conf/opponent, and policies as for navrl evaluate: crank,latest; default: "
        "all of opponent=scripts",
    ),
    "num_episodes": Setting(1000, "of each pair, half of them with seats exchanged; default: 1000"),
    "seed": Setting(1_000_003, "of the episodes, as for navrl evaluate; default: 1000003"),
}
_VARIANT = "variants."  # variants.<name>=<pilot>, and variants.<name>.<option>=<value>
_OVERRIDES = (
    "options of the fight, as for navrl train: env.sim.channels=2; and further pilots with other options: "
    "variants.NAME=PILOT variants.NAME.OPTION=VALUE"
)
_EXAMPLES = """  navrl tournament
  navrl tournament pilots=crank,phase2,phase3 num_episodes=200
  navrl tournament pilots=crank,latest,outputs/combat-ppo/20261120-101500-a1b2
  navrl tournament --markdown table.md --svg table.svg --json table.json
  navrl tournament scenario=game28 env.sim.channels=2
  navrl tournament pilots=crank,phase3 variants.rash=crank variants.rash.fire_fraction=[1.4,1.5]"""


class Result(NamedTuple):
    """The result of one pair, from the view of the row."""

    row: str
    column: str
    wins: int
    draws: int
    losses: int
    row_launches: float  # missiles an episode
    column_launches: float
    length_s: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl tournament`."""
    return run_plain(_parser(), tournament, arguments)


def tournament(options: argparse.Namespace) -> None:
    """Play all pairs, and print and write the tables."""
    take_words(options, _SETTINGS)
    _check(options)
    variants = [word for word in options.overrides if word.startswith(_VARIANT)]
    options.overrides = [word for word in options.overrides if word not in variants]
    config = compose("train", options.overrides)
    prepare_process(config.threads)
    device = pick_device(config.device)
    params = combat_params(config)
    scenario = build(config.env.scenario).checked()
    scenario.to(device)
    options.variants = _variants(variants)
    pilots = _pilots(options)
    for pilot in pilots.values():
        pilot.prepare(params, device)
        if isinstance(pilot, Frozen):
            install_policy(pilot, params, device, compile_mode="off", option="pilots")
    key = _episode_keys(options.seed, options.num_episodes, device)
    pairs, results = list(itertools.combinations(pilots, 2)), []
    try:
        with set_exploration_type(ExplorationType.DETERMINISTIC):  # of trained policies
            for row, column in _with_progress(pairs):
                ends = play_both_ways(params, scenario, (pilots[row], pilots[column]), key)
                results.append(_result(row, column, ends))
    except KeyboardInterrupt as stop:
        if results:  # hours, perhaps; the files are for whole tables
            met = [name for name in pilots if any(name in result[:2] for result in results)]
            sys.stdout.write(f"\n{markdown(met, results)}")
        stop.args = (f"{len(results)} of {len(pairs)} pairs played, no file written",)
        raise
    _report(options, list(pilots), results)


def _result(row: str, column: str, ends: Tensor) -> Result:
    sign = ends[0]
    counts = [int((sign == value).sum()) for value in (1.0, 0.0, -1.0)]
    return Result(row, column, *counts, *ends[1:].mean(1).tolist())


# ---- tables --------------------------------------------------------------------------------------


def standings(pilots: Sequence[str], results: Sequence[Result]) -> tuple[Payoff, dict[str, Rating]]:
    """Return the games of all pilots, and the ratings that explain them best."""
    payoff = Payoff(pilots)
    for result in results:
        payoff.record(result.row, result.column, result.wins, result.draws, result.losses)
    return payoff, bradley_terry(payoff)


def markdown(pilots: Sequence[str], results: Sequence[Result]) -> str:
    """Return two tables: win, draw and loss of row against column in percent; rating and missiles."""
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
    """Return the lines of a Markdown table with aligned columns."""
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
    sys.stdout.write(f"{options.num_episodes} episodes a pair, seed {options.seed}\n\n{text}")
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
        "num_episodes": options.num_episodes,
        "seed": options.seed,
        "overrides": options.overrides,
        "variants": options.variants,
        "results": [result._asdict() for result in results],
        "ratings": {name: rating._asdict() for name, rating in ratings.items()},
    }


def _with_progress(pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the pairs, and print each on stderr with the time that is left."""
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


# ---- options -------------------------------------------------------------------------------------


def _episode_keys(seed: int, episodes: int, device: torch.device) -> Tensor:
    """Return the keys of the same episodes for every pair, so that all pairs start alike."""
    env_ids = torch.arange(episodes, device=device)
    return random.episode_key(torch.full_like(env_ids, seed), env_ids, torch.zeros_like(env_ids))


def _pilots(options: argparse.Namespace) -> dict[str, Pilot]:
    """Build the chosen pilots, by default those of opponent=scripts, and the variants."""
    names = list(options.pilots or group_option("opponent", "scripts").pilots)
    everybody = [*names, *options.variants]
    if len(set(everybody)) < max(2, len(everybody)):
        raise ConfigError(
            f"the pilots are {', '.join(everybody)}; expected two or more different names; change pilots "
            "or variants"
        )
    pilots = {name: _pilot(name) for name in names}
    for name, (pilot, *changes) in options.variants.items():
        scripted_option("opponent", pilot)
        overrides = [f"opponent={pilot}", *(f"opponent.{change}" for change in changes)]
        pilots[name] = build(compose("train", overrides).opponent)
    return pilots


def _pilot(name: str) -> Pilot:
    """Build a script by its name, or the pilot of a trained policy, which gets its policy later."""
    if name in group_options("opponent"):
        option = scripted_option("opponent", name)
    else:
        _require_policy(name)
        option = group_option("opponent", "checkpoint")
        option.checkpoint = name
    pilot: Pilot = build(option)
    return pilot


def _require_policy(name: str) -> None:
    """Raise unless a checkpoint is found by this name; it may be meant for that of a script."""
    try:
        find(name, OUTPUTS)
    except CheckpointNotFound as error:
        is_path = name in (LATEST, BEST) or name.startswith(ZOO) or os.sep in name
        if not is_path:
            scripted_option("opponent", name)  # raises, and names the scripts
        raise ConfigError(f"pilots: {error}; change pilots") from error


def _variants(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the pilot of every variant, followed by its options as key=value."""
    found: dict[str, list[str]] = {}
    for word in words:
        key, _, value = word.removeprefix(_VARIANT).partition("=")
        name, _, option = key.partition(".")
        if not option:
            found[name] = [value]
        elif name in found:
            found[name].append(f"{option}={value}")
        else:
            raise ConfigError(
                f"{word} has no pilot before it; expected {_VARIANT}{name}=<pilot>; add it"
            )
    return found


def _check(options: argparse.Namespace) -> None:
    """Raise ConfigError about wrong options before anything is played."""
    require_whole("num_episodes", options.num_episodes, least=2)
    require_whole("seed", options.seed, least=0)
    for kind in ("json", "markdown", "svg"):
        require_writable(getattr(options, kind), f"--{kind}")


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "tournament",
        "Let every pilot, scripted or trained, play every other, and print results and ratings.",
        _EXAMPLES,
        settings=_SETTINGS,
        overrides=_OVERRIDES,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also write a heat map")
    return parser


if __name__ == "__main__":
    sys.exit(main())
