"""`navrl watch`: a page of the trainings of this machine that updates by itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from navrl.config.checks import ConfigError, printable
from navrl.config.command import run_plain
from navrl.config.command_line import command_parser, take_words
from navrl.config.compose import compose
from navrl.live.address import WATCH_PORT, add_address, check_packages, listen
from navrl.run.stored_runs import RUNS
from navrl.storage.find import OUTPUTS, find_place

_POSITIONAL = (
    "RUN|FOLDER",
    "latest, runs, or folders with runs, also such as will have some; default: outputs and multirun",
)
_OVERRIDES = "options of navrl replay for recorded episodes: opponent=crank, plugins=[mylab], ..."
_EXAMPLES = """  navrl watch                           every run below outputs and multirun
  navrl watch latest
  navrl watch multirun/combat-ppo/20261118-141133 opponent=crank
  navrl watch --port 8000
  navrl watch --host 0.0.0.0            for other machines too, with the token that is printed"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl watch`."""
    described = "Show trainings in the browser while they learn: curves, episodes, buttons."
    parser = command_parser(
        "watch", described, _EXAMPLES, positional=_POSITIONAL, overrides=_OVERRIDES
    )
    add_address(parser, WATCH_PORT)
    return run_plain(parser, watch, arguments)


def watch(options: argparse.Namespace) -> int:
    """Serve the page until a signal ends it."""
    check_packages("watch")
    take_words(options, {}, positionals=None)
    if options.overrides:
        _check(options.overrides)
    places = [_place(name) for name in options.positionals] or [*RUNS]
    from navrl.live.server import serve
    from navrl.live.watch.app import application

    words = [*options.overrides]
    if options.config_dir is not None:
        words += ["--config-dir", str(options.config_dir.absolute())]
    listener = listen(options, WATCH_PORT)
    shown = " and ".join(printable(place) for place in places)
    return serve(application(places, words), listener, f"watching {shown}")


def _check(words: Sequence[str]) -> None:
    """Raise ConfigError about options that navrl replay would refuse, before anything is served."""
    try:
        compose("train", words)
    except ConfigError as error:
        sentence = str(error).partition(" (see: ")[0]
        raise ConfigError(
            f"navrl watch passes options on to navrl replay. {sentence} (see: navrl replay --help)"
        ) from error


def _place(name: str) -> Path:
    """Return the folder that is meant."""
    place = Path(name)
    if not place.is_dir():
        place = find_place(name, OUTPUTS)
    if not place.is_dir():
        raise ConfigError(f"{name} is a file; expected a run or a folder with runs; name another")
    return place


if __name__ == "__main__":
    sys.exit(main())
