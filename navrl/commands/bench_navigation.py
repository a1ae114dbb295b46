"""`navrl bench-navigation`: fly planners and policies in the same held-out worlds and compare them."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from navrl import __version__
from navrl.config.checks import ConfigError, require_whole, require_writable
from navrl.config.command import run_plain
from navrl.config.command_line import Setting, command_parser, take_words
from navrl.contracts import Env
from navrl.envs.navigation.sim.moving_obstacles import KINDS
from navrl.envs.navigation.worlds.pool import Difficulty
from navrl.run.build import build_env
from navrl.run.device import prepare_process
from navrl.run.episodes import play, summarise
from navrl.run.intervals import Interval
from navrl.run.policies import SCRIPTED, build_policy, find_policy, scripted_option
from navrl.storage.files import to_json, write_atomically

_PLANNERS = tuple(
    f"{SCRIPTED}{name}" for name in ("greedy", "potential_field", "velocity_obstacles", "orca")
)
_RATES = ("success", "collision_static", "collision_moving", "outside", "timeout")
_MEANS = ("spl", "goal_time_s", "clearance_m", "interventions")
_CLEARANCE_QUANTILE = 0.05  # the share of episodes that came closer than the table shows
_SETTINGS = {
    "env": Setting("navigation_compat", "default: navigation_compat"),
    "static": Setting((350,), "number of standing obstacles, or several: 200,350; default: 350"),
    "moving": Setting((80,), "number of moving obstacles, or several: 60,80; default: 80"),
    "shield": Setting(("none", "on"), "none, on, sound or several: none,on; default: none,on"),
    "num_episodes": Setting(1024, "of each row; default: 1024"),
    "seed": Setting(1_000_003, "of the episodes; default: 1000003"),
    "compile": Setting("auto", "auto | on | off; default: auto"),
    "threads": Setting(1, "of torch; default: 1"),
    "device": Setting("cpu", "default: cpu"),
}
_EXAMPLES = """  navrl bench-navigation                    planners, 350 standing and 80 moving obstacles
  navrl bench-navigation latest outputs/published.nvrl moving=60,80,100 num_episodes=1024
  navrl bench-navigation env=navigation shield=none --json table.json"""


class Row(NamedTuple):
    """One line of the table."""

    policy: str
    shield: str
    static: int
    moving: int
    metrics: dict[str, Interval]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl bench-navigation`."""
    return run_plain(_parser(), bench, arguments)


def bench(options: argparse.Namespace) -> None:
    """Fly all policies, and print a row for each density of obstacles, with and without the shield."""
    take_words(options, _SETTINGS, positionals=None)
    require_whole("num_episodes", options.num_episodes, least=1)
    policies = [*(_PLANNERS if options.planners else ()), *options.positionals]
    if not policies:
        raise ConfigError(
            "no policy to fly; expected one or more; name a policy, or leave --no-planners out"
        )
    for policy in options.positionals:
        _check_name(policy, options)
    require_writable(options.json, "--json")
    prepare_process(options.threads)
    rows: list[Row] = []
    sys.stdout.write(_line(("policy", "shield", "static", "moving", *_RATES, *_MEANS)))
    for policy in policies:
        for shield in options.shield:
            for row in _rows(policy, shield, options):
                rows.append(row)
                sys.stdout.write(_line(_cells(row)))
                sys.stdout.flush()
    if options.json is not None:
        write_atomically(options.json, to_json(_record(options, rows), indent=2) + "\n")
        sys.stdout.write(f"wrote {options.json}\n")


def _check_name(policy: str, options: argparse.Namespace) -> None:
    """Raise about a policy that does not exist, before others fly for minutes."""
    script = policy.removeprefix(SCRIPTED)
    if script == policy:
        overrides = [f"env={options.env}", *options.overrides]
        find_policy(policy, device=options.device, overrides=overrides)
    elif script != "random":
        scripted_option("planner", script)


def _rows(policy: str, shield: str, options: argparse.Namespace) -> list[Row]:
    """Return the rows of a policy in all densities; the env is built and compiled once."""
    config, state, label, _ = find_policy(
        policy,
        device=options.device,
        overrides=[f"env={options.env}", f"shield={shield}", *options.overrides],
    )
    moving = config.env.sim.moving
    moving.count = max(moving.count, math.ceil(max(options.moving) / KINDS) * KINDS)
    env: Any = build_env(
        config, num_envs=options.num_episodes, seed=options.seed, compile_mode=options.compile
    )
    densities = [
        Difficulty(static, moving) for static in options.static for moving in options.moving
    ]
    for density in densities:
        env.check_difficulty("", density)
    rows = []
    for density in densities:
        env.set_stages([density], {0: 1.0})
        env.start_over()
        torch.manual_seed(options.seed)  # of the random policy
        ends = play(env, build_policy(policy, config, state, env), deterministic=True)
        name = label.removeprefix(SCRIPTED)
        rows.append(Row(name, shield, *density, _metrics(ends, env)))
    return rows


def _metrics(ends: Mapping[str, list[float]], env: Env) -> dict[str, Interval]:
    """Return rates, means, the time of successful episodes, and the 5 % quantile of the clearance."""
    shown = {name: ends[name] for name in (*_RATES, *_MEANS)}
    found = summarise(shown, _RATES, env.counted_when, env.share_names)
    closest = torch.tensor(ends["clearance_m"]).quantile(_CLEARANCE_QUANTILE).item()
    found["clearance_m"] = Interval(closest, closest, closest, len(ends["clearance_m"]))
    return found


def _cells(row: Row) -> tuple[str, ...]:
    rated = (row.metrics[name] for name in _RATES)
    rates = (f"{rate.mean:.3f} {rate.low:.2f}..{rate.high:.2f}" for rate in rated)
    means = (f"{row.metrics[name].mean:.2f}" if row.metrics[name].n else "-" for name in _MEANS)
    return (row.policy[-28:], row.shield, str(row.static), str(row.moving), *rates, *means)


def _line(cells: Sequence[str]) -> str:
    widths = (28, 7, 6, 6, *(16 for _ in _RATES), *(13 for _ in _MEANS))
    return (
        "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
        + "\n"
    )


def _record(options: argparse.Namespace, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "version": __version__,
        "env": options.env,
        "seed": options.seed,
        "num_episodes": options.num_episodes,
        "overrides": options.overrides,
        "rows": [
            {**row._asdict(), "metrics": {name: m._asdict() for name, m in row.metrics.items()}}
            for row in rows
        ],
    }


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "bench-navigation",
        "Fly planners and policies through the same held-out worlds and print their rates.",
        _EXAMPLES,
        positional=(
            "POLICY ...",
            "latest | best | a run | a checkpoint | scripted:<planner or random>",
        ),
        settings=_SETTINGS,
        overrides="other options of the env, as for navrl train: world.count=2",
    )
    parser.add_argument(
        "--no-planners", dest="planners", action="store_false", help="the named policies only"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table to a file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
