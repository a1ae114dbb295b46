"""navrl spacetime: from here, now, can he still get away, and can I?"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from navrl.config.checks import ConfigError
from navrl.config.command import run_plain
from navrl.config.compose import compose
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.reach import MOST_SPEED_MPS
from navrl.envs.combat.sim.state import CombatState, opening_state
from navrl.run.options import check_writable, fight_params
from navrl.view.figure import check_viz
from navrl.view.spacetime import spacetime_graph, steered, write_png

_ME, _HIM = 0, 1
_EXAMPLES = """examples:
  navrl spacetime --range 20000                   head-on, both at 300 m/s
  navrl spacetime --range 12000 --enemy-bearing 60 --own-speed 350 --enemy-speed 250
  navrl spacetime --own=0,0,0,300 --enemy=15000,5000,200,320 --png graph.png
  navrl spacetime --range 20000 --set env.sim.missile.thrust_mps2=200 --json

A bearing is the angle of the other off the own nose, degrees, to the left positive. A pose is
x,y,heading,speed in metres, degrees counter-clockwise from the x axis, and m/s. Both fly straight at full
throttle; what counts is what the best guided missile could reach."""


class Pose(NamedTuple):
    """Where an aircraft is; degrees counter-clockwise from the x axis."""

    x_m: float
    y_m: float
    heading_deg: float
    speed_mps: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of `navrl spacetime`."""
    return run_plain(_parser(), spacetime, arguments)


def spacetime(options: argparse.Namespace) -> None:
    """The command."""
    own, enemy = _poses(options)
    if options.png is not None:
        if options.png.suffix != ".png":
            raise ConfigError(
                f"--png {options.png}; expected a name that ends in .png; change --png"
            )
        check_viz()
        check_writable(options.png, "--png")
    config = compose("train", ["env=combat", *options.set])
    params = fight_params(config)
    if params.team_size != 1:
        raise ConfigError(
            f"env.team_size = {params.team_size}; expected 1, one against one; change --set"
        )
    state = opening_state(params, _motion(own, enemy))
    graph = spacetime_graph(params, state, 0, _ME)
    defence, attack = graph["margins"], graph["attack"]
    sentences = [he_launches(defence), you_launch(attack)]
    if options.json:
        poses = {"own": own._asdict(), "enemy": enemy._asdict()}
        sys.stdout.write(json.dumps({**poses, "says": sentences, **graph}) + "\n")
    else:
        sys.stdout.write("\n".join([*sentences, "", table(defence, attack)]) + "\n")
    if options.png is not None:
        _draw(options.png, params, state, defence, sentences[0])
        if not options.json:
            sys.stdout.write(f"wrote {options.png}\n")


def he_launches(margins: dict[str, Any]) -> str:
    """What an enemy's launch means for me."""
    way, best_m, time_s = _best(margins)
    if best_m >= 0.0:
        return (
            f"He launches now: you escape by {way}, with {_km(best_m)} to spare; "
            f"the tightest moment comes {time_s} s from now."
        )
    return (
        f"He launches now: no way out: the better escape, {way}, ends {_km(-best_m)} inside "
        f"what his missile can reach, {time_s} s from now."
    )


def you_launch(margins: dict[str, Any]) -> str:
    """What my launch means for the enemy."""
    way, best_m, time_s = _best(margins)
    if best_m >= 0.0:
        return (
            f"You launch now: he escapes by {way}, with {_km(best_m)} to spare; "
            f"the tightest moment comes {time_s} s from now."
        )
    return (
        f"You launch now: no way out for him: his better escape, {way}, ends {_km(-best_m)} inside "
        f"what your missile can reach, {time_s} s from now."
    )


def table(defence: dict[str, Any], attack: dict[str, Any]) -> str:
    """The margins of both, aligned."""
    head = ("margin, km", "left", "right", "straight on", "tightest, s")
    lines = [f"{head[0]:<14}" + "".join(f"{title:>13}" for title in head[1:])]
    for name, found in (("he launches", defence), ("you launch", attack)):
        distances = [found[f"{line}_m"] / 1e3 for line in ("left", "right", "current")]
        cells = [f"{distance:+.2f}" for distance in distances] + [f"{found['critical_s']:g}"]
        lines.append(f"{name:<14}" + "".join(f"{cell:>13}" for cell in cells))
    return "\n".join(lines)


def _best(margins: dict[str, Any]) -> tuple[str, float, str]:
    """The better escape in words, its margin in metres, and when it is tightest."""
    left_m, right_m = margins["left_m"], margins["right_m"]
    way = "turning left" if left_m > right_m else "turning right"
    if left_m == right_m:
        way = "flying on" if margins["current_m"] == left_m else "turning either way"
    return way, max(left_m, right_m), f"{margins['critical_s']:g}"


def _km(distance_m: float) -> str:
    return f"{distance_m / 1e3:.1f} km"


def _draw(
    path: Path, params: CombatParams, state: CombatState, defence: dict[str, Any], title: str
) -> None:
    write_png(
        path,
        params,
        steered(state, 0, _ME),
        steered(state, 0, _HIM),
        critical_s=defence["critical_s"],
        title=title,
        names=("you", "he"),
    )


def _motion(own: Pose, enemy: Pose) -> Motion:
    """Fields (2, 1)."""
    x_m, y_m, heading_deg, speed_mps = torch.tensor([own, enemy]).unsqueeze(-1).unbind(1)
    heading = torch.deg2rad(heading_deg)
    return Motion(x_m, y_m, torch.cos(heading), torch.sin(heading), speed_mps)


def _poses(options: argparse.Namespace) -> tuple[Pose, Pose]:
    """Where both are, from poses or from range, bearings and speeds."""
    given = (options.own, options.enemy)
    if (options.range is None) == (given == (None, None)):
        raise ConfigError(
            "where are the two? expected either --range, or both --own and --enemy (see: navrl "
            "spacetime --help)"
        )
    if options.range is None:
        if None in given:
            missing = "--own" if options.own is None else "--enemy"
            raise ConfigError(f"{missing} is missing; expected both --own and --enemy; add it")
        poses = _pose("--own", options.own), _pose("--enemy", options.enemy)
    else:
        if not 0.0 < options.range < math.inf:
            raise ConfigError(
                f"--range {options.range:g}; expected metres, more than 0; change --range"
            )
        bearing = math.radians(options.own_bearing)
        place = options.range * math.cos(bearing), options.range * math.sin(bearing)
        heading_deg = options.own_bearing + 180.0 - options.enemy_bearing
        poses = (
            Pose(0.0, 0.0, 0.0, options.own_speed),
            Pose(*place, heading_deg, options.enemy_speed),
        )
    for name, pose in zip(("own", "enemy"), poses, strict=True):
        if not (all(map(math.isfinite, pose)) and 0.0 < pose.speed_mps <= MOST_SPEED_MPS):
            raise ConfigError(
                f"the {name} aircraft has {tuple(pose)}; expected finite numbers and a speed of more "
                f"than 0, up to {MOST_SPEED_MPS:g} m/s; change --{name} or --{name}-speed"
            )
    return poses


def _pose(name: str, text: str) -> Pose:
    """x,y,heading,speed as a pose."""
    try:
        return Pose(*map(float, text.split(",")))
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{name} {text}; expected x,y,heading,speed as in {name}=0,0,90,300; change {name}"
        ) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="navrl spacetime",
        description="From here, now: if a missile were launched, could its target still get away?",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--range", type=float, metavar="METRES", help="between the two")
    for side in ("own", "enemy"):
        parser.add_argument(
            f"--{side}-speed", type=float, default=300.0, metavar="M/S", help="default: 300"
        )
        parser.add_argument(
            f"--{side}-bearing",
            type=float,
            default=0.0,
            metavar="DEGREES",
            help="of the other off its nose; default: 0",
        )
    for side in ("own", "enemy"):
        parser.add_argument(f"--{side}", metavar="X,Y,HEADING,SPEED", help="instead of --range")
    parser.add_argument("--json", action="store_true", help="the whole graph as JSON")
    parser.add_argument("--png", type=Path, metavar="FILE.png", help="a picture; needs navrl[viz]")
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="options of the fight, as for navrl train: env.sim.fighter.thrust_mps2=20",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
