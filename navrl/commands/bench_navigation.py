"""navrl bench-navigation: planners and policies in the same held-out worlds, with and without the shield."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from navrl import __version__
from navrl.config.checks import ConfigError
from navrl.config.command import run_plain
from navrl.config.compose import group_option
from navrl.envs.navigation.sim.moving_obstacles import KINDS
from navrl.envs.navigation.worlds.pool import Difficulty
from navrl.evaluate import play, summarise
from navrl.run.intervals import Interval
from navrl.run.options import check_writable, prepare_process
from navrl.run.policies import SCRIPTED, build_env, build_policy, examination, find_subject
from navrl.storage.files import to_json, write_atomically

_PLANNERS = tuple(
    f"{SCRIPTED}{name}" for name in ("greedy", "potential_field", "velocity_obstacles", "orca")
)
_SHIELDS = {"without": ("none",), "with": ("on",), "both": ("none", "on")}
_RATES = ("success", "collision_static", "collision_moving", "outside", "timeout")
_MEANS = ("spl", "goal_time_s", "clearance_m", "interventions")
_LOW_CLEARANCE = 0.05  # the share of episodes that came closer than what the table shows
_EXAMPLES = """examples:
  navrl bench-navigation                                    planners, 350 standing and 80 moving obstacles
  navrl bench-navigation latest outputs/published.nvrl --moving 60 80 100 --episodes 1024
  navrl bench-navigation --env navigation --output table.json"""


class Row(NamedTuple):
    """One line of the table."""

    policy: str
    shield: str
    static: int
    moving: int
    metrics: dict[str, Interval]


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of `navrl bench-navigation`."""
    return run_plain(_parser(), bench, arguments)


def bench(options: argparse.Namespace) -> None:
    """The command."""
    if options.episodes < 1:
        raise ConfigError(f"--episodes {options.episodes}; expected 1 or more; change --episodes")
    policies = [*(_PLANNERS if options.planners else ()), *options.policies]
    if not policies:
        raise ConfigError("nothing to fly; name a policy, or leave --no-planners out")
    if options.output is not None:
        check_writable(options.output)
    prepare_process(options.threads)
    rows: list[Row] = []
    sys.stdout.write(_line(("policy", "shield", "static", "moving", *_RATES, *_MEANS)))
    for policy in policies:
        for shield in _SHIELDS[options.shield]:
            for row in _flown(policy, shield, options):
                rows.append(row)
                sys.stdout.write(_line(_cells(row)))
                sys.stdout.flush()
    if options.output is not None:
        write_atomically(options.output, to_json(_record(options, rows), indent=2) + "\n")
        sys.stdout.write(f"wrote {options.output}\n")


def _flown(policy: str, shield: str, options: argparse.Namespace) -> list[Row]:
    """A policy in all densities; the env is built and compiled once."""
    config, state, label = find_subject(
        policy, device=options.device, env=options.env, overrides=options.set
    )
    if "shield" not in config:
        raise ConfigError(
            f"--env {options.env} has no obstacles to fly among; expected navigation or "
            "navigation_compat; change --env"
        )
    config = examination(config, {"shield": group_option("shield", shield)})
    room = config.env.sim.moving
    room.count = max(room.count, math.ceil(max(options.moving) / KINDS) * KINDS)
    env = build_env(
        config, num_envs=options.episodes, seed=options.seed, compile_mode=options.compile
    )
    densities = [
        Difficulty(static, moving) for static in options.static for moving in options.moving
    ]
    for density in densities:
        env.check_difficulty("--", density)
    rows = []
    for density in densities:
        env.set_stages([density], {0: 1.0})
        env.start_over()
        torch.manual_seed(options.seed)  # of the random policy
        ends = play(env, build_policy(policy, config, state, env), deterministic=True)
        rows.append(Row(_name(label), shield, *density, _metrics(ends, env.counted_when)))
    return rows


def _metrics(
    ends: Mapping[str, list[float]], counted_when: Mapping[str, str]
) -> dict[str, Interval]:
    """Rates, means, the time of those that arrived, and the clearance that 5 % fell short of."""
    found = summarise({name: ends[name] for name in (*_RATES, *_MEANS)}, _RATES, counted_when)
    closest = torch.tensor(ends["clearance_m"]).quantile(_LOW_CLEARANCE).item()
    found["clearance_m"] = Interval(closest, closest, closest, len(ends["clearance_m"]))
    return found


def _name(label: str) -> str:
    """A planner's name, or the file of a policy."""
    return label.removeprefix(SCRIPTED) if label.startswith(SCRIPTED) else label


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
        "episodes": options.episodes,
        "set": options.set,
        "rows": [
            {**row._asdict(), "metrics": {name: m._asdict() for name, m in row.metrics.items()}}
            for row in rows
        ],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="navrl bench-navigation",
        description="Fly planners and policies through the same held-out worlds and print how they fare.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "policies",
        nargs="*",
        default=[],
        metavar="POLICY",
        help="latest | best | a run | a checkpoint | scripted:random",
    )
    parser.add_argument(
        "--no-planners", dest="planners", action="store_false", help="the named policies only"
    )
    parser.add_argument("--env", default="navigation_compat", help="default: %(default)s")
    parser.add_argument(
        "--static",
        type=int,
        nargs="+",
        default=[350],
        metavar="N",
        help="obstacles that stand; default: 350",
    )
    parser.add_argument(
        "--moving",
        type=int,
        nargs="+",
        default=[80],
        metavar="N",
        help="obstacles that move; default: 80",
    )
    parser.add_argument(
        "--shield", choices=tuple(_SHIELDS), default="both", help="default: %(default)s"
    )
    parser.add_argument(
        "--episodes", type=int, default=1024, help="of each line; default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=1_000_003, help="default: %(default)s")
    parser.add_argument(
        "--compile", choices=("auto", "on", "off"), default="auto", help="default: %(default)s"
    )
    parser.add_argument("--threads", type=int, default=1, help="of torch; default: %(default)s")
    parser.add_argument("--device", default="cpu", help="default: %(default)s")
    parser.add_argument(
        "--output", type=Path, metavar="FILE.json", help="write the table to it too"
    )
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="options of the env, as for navrl train",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
