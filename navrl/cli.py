"""The console script `navrl <command>`."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from navrl import __version__
from navrl.config.signals import end_at_once, ending_with_reader


class Command(NamedTuple):
    """A module with a `main()` that reads sys.argv, and its lines in the help."""

    module: str
    summary: str
    example: str


# One line per command; the module is imported only when its command runs.
COMMANDS = {
    "train": Command("navrl.train", "train a policy", "navrl train env=combat agent=ppo seed=1"),
    "evaluate": Command(
        "navrl.evaluate", "measure a policy", "navrl evaluate checkpoint=outputs/latest"
    ),
    "collect": Command(
        "navrl.commands.collect",
        "play the newest policy of a run, and write rollouts that it learns from",
        "navrl collect latest",
    ),
    "sweep": Command(
        "navrl.commands.sweep",
        "list the jobs of a sweep, run what is missing",
        "navrl sweep --missing multirun/combat-ppo/<sweep>",
    ),
    "tune": Command(
        "navrl.commands.tune",
        "search for better options",
        "navrl tune env=combat agent=ppo --trials 24 --workers 2",
    ),
    "report": Command("navrl.commands.report", "curves and tables of runs", "navrl report latest"),
    "gallery": Command(
        "navrl.commands.gallery",
        "write replays, curves and leagues as a folder to publish",
        "navrl gallery latest zoo:combat-league",
    ),
    "runs": Command(
        "navrl.commands.runs",
        "list, compare, tag, stop and remove runs",
        "navrl runs ls env=combat 'objective>0.9'",
    ),
    "watch": Command(
        "navrl.commands.watch",
        "show trainings in the browser while they learn",
        "navrl watch",
    ),
    "replay": Command(
        "navrl.commands.replay",
        "write an episode as an HTML file",
        "navrl replay best opponent=crank",
    ),
    "play": Command(
        "navrl.commands.play",
        "fly it yourself in the browser",
        "navrl play zoo:combat-league",
    ),
    "tournament": Command(
        "navrl.commands.tournament",
        "let pilots and policies play each other",
        "navrl tournament num_episodes=200",
    ),
    "spacetime": Command(
        "navrl.commands.spacetime",
        "escape margins of two aircraft",
        "navrl spacetime range_m=20000",
    ),
    "bench": Command(
        "navrl.commands.bench", "time training and its parts", "navrl bench env=combat"
    ),
    "bench-navigation": Command(
        "navrl.commands.bench_navigation",
        "compare planners and policies",
        "navrl bench-navigation latest",
    ),
    "checkpoint": Command(
        "navrl.commands.checkpoint",
        "list, compare and export checkpoints",
        "navrl checkpoint ls latest",
    ),
    "zoo": Command(
        "navrl.commands.zoo",
        "list the policies that come with navrl",
        "navrl zoo combat-league",
    ),
    "reproduce": Command(
        "navrl.commands.reproduce",
        "train one of them again and compare",
        "navrl reproduce combat-scripts seed=1",
    ),
    "export": Command(
        "navrl.commands.export",
        "write a policy as ONNX, pt2 or safetensors",
        "navrl export best --to onnx",
    ),
    "import-navrl": Command(
        "navrl.commands.import_navrl",
        "convert published weights",
        "navrl import-navrl navrl_checkpoint.pt",
    ),
    "new": Command(
        "navrl.commands.new", "begin a package of your own", "navrl new opponent weave --into mylab"
    ),
    "rollouts": Command(
        "navrl.commands.rollouts",
        "list and export rollouts on disk",
        "navrl rollouts ls outputs/latest",
    ),
    "check-env": Command(
        "navrl.commands.check_env",
        "say what is wrong with a world",
        "navrl check-env reach plugins=[mylab]",
    ),
    "doctor": Command("navrl.commands.doctor", "check this installation", "navrl doctor --json"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; 2 means the command line was wrong."""
    if arguments is None:
        end_at_once()
        _import_nothing_from_here()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        sys.stderr.write(help_text())
        return 2
    name, *rest = words
    if name in ("-h", "--help", "help"):
        with ending_with_reader():
            sys.stdout.write(help_text())
        return 0
    if name in ("-V", "--version"):
        sys.stdout.write(f"navrl {__version__}\n")
        return 0
    if name not in COMMANDS:
        sys.stderr.write(f"navrl: error: {unknown(name)}\n")
        return 2
    sys.argv = [sys.argv[0], *rest]  # as `python -m navrl.<command>` receives it
    result = importlib.import_module(COMMANDS[name].module).main()  # the import takes seconds
    return result if isinstance(result, int) else 0


def _import_nothing_from_here() -> None:
    """Keep the current folder, which may be a stranger's, out of the modules of child processes too.

    `python -c`, with which multiprocessing and torch start theirs, would look there first.
    """
    with contextlib.suppress(FileNotFoundError):  # the folder is gone
        if not {"", os.getcwd()} & {*sys.path}:
            os.environ.setdefault("PYTHONSAFEPATH", "1")


def help_text() -> str:
    """Return the list of commands, each with an example."""
    width = max(map(len, COMMANDS))
    commands = "".join(
        f"  {name:<{width}}  {command.summary}\n" for name, command in COMMANDS.items()
    )
    examples = "".join(f"  {command.example}\n" for command in COMMANDS.values())
    return (
        "usage: navrl <command> [options]\n\n"
        f"Commands\n{commands}\n"
        f"Examples\n{examples}\n"
        "More about a command: navrl <command> --help\n"
    )


def unknown(name: str) -> str:
    """Return a sentence about an unknown command, with the closest known one."""
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(COMMANDS)}"
    return f"Unknown command '{name}'; {hint} (see: navrl --help)"


if __name__ == "__main__":
    sys.exit(main())
