"""`navrl spacetime`: if a missile were launched now, could its target still escape?"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from navrl.config.checks import ConfigError, require, require_writable
from navrl.config.command import run_plain
from navrl.config.command_line import Setting, command_parser, take_words
from navrl.config.compose import compose
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.reach import MOST_SPEED_MPS
from navrl.envs.combat.sim.state import CombatState, initial_state
from navrl.run.build import combat_params
from navrl.view.figure import check_viz
from navrl.view.spacetime import spacetime_graph, steered, write_png

_OWN, _ENEMY = 0, 1  # indices of the aircraft
_SETTINGS = {
    "range_m": Setting("", "distance between the two aircraft, metres"),
    "own_speed_mps": Setting(300.0, "default: 300"),
    "enemy_speed_mps": Setting(300.0, "default: 300"),
    "own_bearing_deg": Setting(
        0.0, "of the enemy off the own nose, to the left positive; default: 0"
    ),
    "enemy_bearing_deg": Setting(0.0, "of the own aircraft off the enemy's nose; default: 0"),
    "own": Setting(
        "", "x,y,heading,speed instead of range_m: metres, degrees counter-clockwise, m/s"
    ),
    "enemy": Setting("", "likewise"),
}
_EXAMPLES = """  navrl spacetime range_m=20000                   head-on, both at 300 m/s
  navrl spacetime range_m=12000 enemy_bearing_deg=60 own_speed_mps=350 enemy_speed_mps=250
  navrl spacetime own=0,0,0,300 enemy=15000,5000,200,320 --png graph.png
  navrl spacetime range_m=20000 env.sim.missile.thrust_mps2=200 --json

Both aircraft fly straight at full throttle. The margins are those against the best guided missile."""


class Pose(NamedTuple):
    """Position, heading (degrees counter-clockwise from the x axis) and speed of an aircraft."""

    x_m: float
    y_m: float
    heading_deg: float
    speed_mps: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl spacetime`."""
    return run_plain(_parser(), spacetime, arguments)


def spacetime(options: argparse.Namespace) -> None:
    """Print the margins of both aircraft, and write the picture."""
    take_words(options, _SETTINGS)
    own, enemy = _poses(options)
    require_writable(options.png, "--png", suffix=".png")
    if options.png is not None:
        check_viz()
    config = compose("train", ["env=combat", *options.overrides])
    params = combat_params(config)
    size = params.team_size
    require(size == 1, "env.team_size", size, "1, one against one")
    state = initial_state(params, _motion(own, enemy))
    graph = spacetime_graph(params, state, 0, _OWN)
    defence, attack = graph["margins"], graph["attack"]
    sentences = [enemy_launches(defence), own_launches(attack)]
    if options.json:
        poses = {"own": own._asdict(), "enemy": enemy._asdict()}
        sys.stdout.write(json.dumps({**poses, "sentences": sentences, **graph}) + "\n")
    else:
        sys.stdout.write("\n".join([*sentences, "", table(defence, attack)]) + "\n")
    if options.png is not None:
        _draw(options.png, params, state, defence, sentences[0])
        if not options.json:
            sys.stdout.write(f"wrote {options.png}\n")


def enemy_launches(margins: dict[str, Any]) -> str:
    """Return in words if the own aircraft escapes a launch of the enemy."""
    return f"The enemy launches now: you {_escape(margins, ('escape', 'your', 'the missile'))}"


def own_launches(margins: dict[str, Any]) -> str:
    """Return in words if the enemy escapes a launch of the own aircraft."""
    words = ("escapes", "its", "your missile")
    return f"You launch now: the enemy {_escape(margins, words)}"


def _escape(margins: dict[str, Any], words: tuple[str, str, str]) -> str:
    """Return the end of such a sentence, with the verb, the possessive and the missile in these words."""
    escapes, whose, missile = words
    way, best_m, time_s = _best(margins)
    if best_m >= 0.0:
        spare = f"{escapes} by {way}, with {_km(best_m)} to spare"
        return f"{spare}; the margin is smallest {time_s} s from now."
    return (
        f"cannot escape: {whose} better escape, {way}, ends {_km(-best_m)} inside the reach of {missile}, "
        f"{time_s} s from now."
    )


def table(defence: dict[str, Any], attack: dict[str, Any]) -> str:
    """Return the margins of both aircraft as an aligned table."""
    head = ("margin, km", "left", "right", "straight on", "smallest, s")
    lines = [f"{head[0]:<18}" + "".join(f"{title:>13}" for title in head[1:])]
    for name, found in (("enemy launches", defence), ("you launch", attack)):
        distances = [found[f"{line}_m"] / 1e3 for line in ("left", "right", "current")]
        cells = [f"{distance:+.2f}" for distance in distances] + [f"{found['critical_s']:g}"]
        lines.append(f"{name:<18}" + "".join(f"{cell:>13}" for cell in cells))
    return "\n".join(lines)


def _best(margins: dict[str, Any]) -> tuple[str, float, str]:
    """Return the better escape in words, its margin in metres, and the time of the smallest margin."""
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
        steered(state, 0, _OWN),
        steered(state, 0, _ENEMY),
        critical_s=defence["critical_s"],
        title=title,
        names=("you", "enemy"),
    )


def _motion(own: Pose, enemy: Pose) -> Motion:
    """Return the motion of both aircraft, fields (2, 1)."""
    x_m, y_m, heading_deg, speed_mps = torch.tensor([own, enemy]).unsqueeze(-1).unbind(1)
    heading = torch.deg2rad(heading_deg)
    return Motion(x_m, y_m, torch.cos(heading), torch.sin(heading), speed_mps)


def _poses(options: argparse.Namespace) -> tuple[Pose, Pose]:
    """Return the poses of both aircraft, from own= and enemy=, or from range, bearings and speeds."""
    if bool(options.range_m) == bool(options.own or options.enemy):
        raise ConfigError(
            "the positions are unclear; expected either range_m=, or both own= and enemy= (see: navrl "
            "spacetime --help)"
        )
    if options.range_m:
        poses = _poses_at_range(options)
    else:
        for name in ("own", "enemy"):
            if not getattr(options, name):
                raise ConfigError(f"{name}= is missing; expected both own= and enemy=; add it")
        poses = _pose("own", options.own), _pose("enemy", options.enemy)
    for name, pose in zip(("own", "enemy"), poses, strict=True):
        if not (all(map(math.isfinite, pose)) and 0.0 < pose.speed_mps <= MOST_SPEED_MPS):
            raise ConfigError(
                f"the {name} aircraft has {tuple(pose)}; expected finite numbers and a speed of more "
                f"than 0, up to {MOST_SPEED_MPS:g} m/s; change {name} or {name}_speed_mps"
            )
    return poses


def _poses_at_range(options: argparse.Namespace) -> tuple[Pose, Pose]:
    """Return poses with the own aircraft at the origin, on a heading along the x axis."""
    try:
        range_m = float(options.range_m)
    except ValueError:
        range_m = math.nan
    require(0.0 < range_m < math.inf, "range_m", options.range_m, "metres, more than 0")
    bearing = math.radians(options.own_bearing_deg)
    place = range_m * math.cos(bearing), range_m * math.sin(bearing)
    heading_deg = options.own_bearing_deg + 180.0 - options.enemy_bearing_deg
    return (
        Pose(0.0, 0.0, 0.0, options.own_speed_mps),
        Pose(*place, heading_deg, options.enemy_speed_mps),
    )


def _pose(name: str, text: str) -> Pose:
    """Return x,y,heading,speed as a pose."""
    try:
        return Pose(*map(float, text.strip("[]").split(",")))
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{name} = {text}; expected x,y,heading,speed as in {name}=0,0,90,300; change {name}"
        ) from error


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "spacetime",
        "If a missile were launched now, could its target still escape?",
        _EXAMPLES,
        settings=_SETTINGS,
        overrides="options of the fight, as for navrl train: env.sim.fighter.thrust_mps2=20",
    )
    parser.add_argument("--json", action="store_true", help="print the whole graph as JSON")
    parser.add_argument("--png", type=Path, metavar="FILE.png", help="a picture; needs navrl[viz]")
    return parser


if __name__ == "__main__":
    sys.exit(main())
