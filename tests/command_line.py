"""Commands as a user gives them, in this process or in one of its own.

A new interpreter imports for 3 s before a command begins. A process here is forked from a server that has
done so already, and is as much on its own: memory, signals, exit code, what it prints.
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from hydra.core.global_hydra import GlobalHydra

from navrl.cli import COMMANDS

_TIMEOUT_S = 120.0
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(
    [*(command.module for command in COMMANDS.values()), "wandb.sdk.launch.inputs.internal"]
)


class Finished(NamedTuple):
    """Exit code and output of a process."""

    returncode: int | None
    stdout: str
    stderr: str


def command(main: Callable[[], object], *arguments: str) -> int:
    """A command in this process and the current folder: its exit code."""
    with mock.patch.object(sys, "argv", ["navrl", *arguments]):
        try:
            main()
        except SystemExit as stopped:
            return stopped.code
        finally:
            GlobalHydra.instance().clear()
    return 0


def process(
    main: Callable[[], object], *arguments: str, folder: Path, environment: dict | None = None
) -> Finished:
    """A command in a process of its own and in that folder; `main` is a function of a module."""
    return Started(main, *arguments, folder=folder, environment=environment).finished(_TIMEOUT_S)


class Started:
    """A command that goes on in a process of its own."""

    def __init__(
        self,
        main: Callable[[], object],
        *arguments: str,
        folder: Path,
        environment: dict | None = None,
    ) -> None:
        self._place = tempfile.TemporaryDirectory()
        self._written = Path(self._place.name, "stdout"), Path(self._place.name, "stderr")
        what = (main, arguments, folder, environment or {}, self._written)
        self.child = forks.Process(target=_run, args=what)
        self.child.start()

    def finished(self, timeout_s: float) -> Finished:
        """What it has printed and its exit code, once it has ended or is killed."""
        self.child.join(max(timeout_s, 0.0))
        self.child.kill()
        self.child.join()
        with self._place:
            texts = [file.read_text(encoding="utf-8") for file in self._written]
        return Finished(self.child.exitcode, *texts)


def _run(main, arguments, folder, environment, written):
    for number, file in enumerate(written, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(folder)
    os.environ.update(environment)
    sys.argv = ["navrl", *arguments]
    result = main()
    sys.exit(result if isinstance(result, int) else 0)
