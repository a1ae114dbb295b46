"""`navrl play`: fly against a script or a policy in the browser, or watch two of them fight."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import torch

from navrl.config.checks import ConfigError, printable, require_whole
from navrl.config.command import run_plain
from navrl.config.command_line import Setting, command_parser, take_words
from navrl.live.address import PLAY_PORT, add_address, check_packages, listen

_POSITIONAL = (
    "OPPONENT",
    "straight | crank | ... | latest | best | a run | a checkpoint | zoo:<name>; default: crank; with "
    "--watch two of them: who flies for you, then the opponent",
)
_SETTINGS = {
    "team_size": Setting(1, "aircraft on each side, 1 or 2; default: 1"),
    "wingman": Setting("crank", "who flies beside you with team_size=2; default: crank"),
    "difficulty": Setting("normal", "easy | normal | hard; default: normal"),
    "pilot": Setting("player", "your name, under which your fights are rated; default: player"),
    "seed": Setting(1, "of the first fight; the next ones count on; default: 1"),
}
_OVERRIDES = "options of navrl train: scenario=game28, env.sim.ammunition=2, ..."
_LONGEST_NAME = 40
_EXAMPLES = """  navrl play                                    against the script crank
  navrl play zoo:combat-league
  navrl play latest difficulty=easy             against the policy of your newest run
  navrl play crank team_size=2 wingman=zoo:combat-scripts
  navrl play zoo:combat-league zoo:combat-scripts --watch
  navrl play env=navigation shield=on           a drone by stick, with its lidar drawn
  navrl play straight scenario=game28 env.sim.channels=2 --port 8000"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl play`."""
    return run_plain(_parser(), play, arguments)


def play(options: argparse.Namespace) -> int:
    """Serve the page until a signal ends it."""
    check_packages("play")
    take_words(options, _SETTINGS, positionals=2 if options.watch else 1)
    _check(options)
    torch.set_num_threads(1)  # a fight is small, and each player has a thread
    # These take seconds to import, and need the extra [live].
    from navrl.live.play.app import application
    from navrl.live.server import serve
    from navrl.view.html import PLAY, PLAY_DRONE

    worlds = [word.removeprefix("env=") for word in options.overrides if word.startswith("env=")]
    if worlds and not worlds[-1].startswith(("combat", "navigation")):
        raise ConfigError(
            f"env={worlds[-1]} cannot be played; expected combat or navigation; change env"
        )
    if worlds and worlds[-1].startswith("navigation"):
        scene, games = PLAY_DRONE, _drone_games(options)
    else:
        scene, games = PLAY, _combat_games(options)
    listener = listen(options, PLAY_PORT)  # after everything that may be wrong
    return serve(application(scene, games), listener, "play")


def _combat_games(options: argparse.Namespace) -> Any:
    """Return fights, or raise one sentence about what is impossible."""
    from navrl.live.play.choice import Choice, check_pilot, configuration
    from navrl.live.play.fight import CombatFight
    from navrl.live.play.games import CombatGames

    names = [check_pilot(name) for name in options.positionals or ["crank"]]
    wingman = check_pilot(options.wingman)
    first = Choice(
        opponent=names[-1],
        own=names[0] if options.watch else None,
        team_size=options.team_size,
        wingman=wingman,
        difficulty=options.difficulty,
    )
    games = CombatGames(
        first,
        pilot=options.pilot,
        overrides=options.overrides,
        named=[*names, wingman],
        seed=options.seed,
    )
    config = configuration(first, options.overrides)
    CombatFight(
        first, config, seed=options.seed
    )  # or a sentence about a policy that cannot fly here
    return games


def _drone_games(options: argparse.Namespace) -> Any:
    """Return flights of a drone, or raise one sentence about what is impossible."""
    from navrl.live.play.trip import DroneGames

    if options.positionals or options.watch:
        raise ConfigError(
            "a drone has no opponent; expected navrl play env=navigation and options of it; "
            "to watch a policy fly: navrl replay <policy> env=navigation"
        )
    return DroneGames(pilot=options.pilot, overrides=options.overrides, seed=options.seed)


def _check(options: argparse.Namespace) -> None:
    require_whole("seed", options.seed, least=0)
    if options.watch and len(options.positionals) != 2:
        got = " and ".join(options.positionals) or "nobody"
        raise ConfigError(
            f"--watch got {got}; expected two pilots, the second one is the opponent; "
            "see: navrl play --help"
        )
    name = options.pilot
    if not name or len(name) > _LONGEST_NAME or printable(name) != name:
        raise ConfigError(
            f"pilot = {name!r:.60}; expected a name of 1 to {_LONGEST_NAME} characters; change pilot"
        )


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "play",
        "Fly in the browser, in the simulator itself, against a script or a policy.",
        _EXAMPLES,
        positional=_POSITIONAL,
        settings=_SETTINGS,
        overrides=_OVERRIDES,
    )
    add_address(parser, PLAY_PORT)
    parser.add_argument("--watch", action="store_true", help="two pilots fight, and nobody plays")
    return parser


if __name__ == "__main__":
    sys.exit(main())
