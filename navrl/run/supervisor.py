"""restarts=N: the training runs in a child process, which is started again when it crashes."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from navrl.config.checks import ConfigError, require_whole
from navrl.config.quoting import override
from navrl.config.signals import ALL, ENDING, PARENT, blocked, handling
from navrl.run.plan import AUTO, is_run, own_folder
from navrl.run.status import State, read_status, write_status


def train_supervised(cfg: DictConfig) -> float:
    """Train in child processes; exit with the code of the last one if it failed."""
    require_whole("restarts", cfg.restarts, 0)
    folder = supervised_folder(cfg)
    code = supervise(supervised_command(cfg, folder), folder, cfg.restarts)
    if code:
        raise SystemExit(code)
    return math.nan


def supervise(command: Sequence[str], folder: Path, restarts: int) -> int:
    """Return the exit code of the last of at most 1 + `restarts` processes.

    A process is started again if it crashed: if the system killed it, or if it failed while it trained in
    `folder`. Wrong options would be as wrong again. SIGINT, SIGTERM and SIGHUP end everything; the child gets
    these signals too, and SIGUSR1.
    """
    child = _Child()

    def run() -> Ended:
        code = child.run(command)
        settle(folder, child.pid, code)
        return Ended(code, f"training {_described(code)}", stopped=child.stopped_by != 0)

    with child.relaying():
        return restart_crashed(run, folder, restarts)


class Ended(NamedTuple):
    """The end of a training in other processes."""

    code: int  # negative: of the signal that killed it
    words: str  # what happened
    stopped: bool = False  # by a signal to this process


def restart_crashed(run: Callable[[], Ended], folder: Path, restarts: int) -> int:
    """Run a training in `folder`, and again if it crashed; return the exit code of the last attempt."""
    for attempt in range(restarts + 1):
        before = owner_of(folder)
        ended = run()
        begun = owner_of(folder) != before  # else a folder or an option is wrong
        if ended.stopped or not _crashed(ended.code, begun=begun):
            break
        left = restarts - attempt
        then = f"restart {attempt + 1} of {restarts}" if left else "no restart is left"
        sys.stderr.write(f"navrl: {ended.words}; {then}\n")
    return 128 - ended.code if ended.code < 0 else ended.code


def supervised_folder(cfg: DictConfig) -> Path:
    """Return the folder in which the child trains: only resume=auto continues the run in it."""
    hydra = HydraConfig.get()
    fresh = Path(hydra.runtime.output_dir)
    if cfg.resume == AUTO:
        return own_folder(fresh, list(hydra.overrides.task))
    if is_run(fresh):
        raise ConfigError(
            f"{str(fresh)!r} holds a run already; go on with resume={AUTO}, or choose another folder with "
            "hydra.run.dir=<folder>"
        )
    return fresh


def supervised_command(cfg: DictConfig, folder: Path) -> list[str]:
    """Return this command for a child that begins or continues the run in `folder`."""
    return [sys.executable, "-m", "navrl.train", *sys.argv[1:], *supervised_words(cfg, folder)]


def supervised_words(cfg: DictConfig, folder: Path) -> list[str]:
    """Return the options by which a child begins or continues the run in `folder`."""
    if cfg.resume not in (None, AUTO) or HydraConfig.get().mode is RunMode.MULTIRUN:
        raise ConfigError(
            f"restarts = {cfg.restarts} goes on with the run of this very command; expected resume=auto and "
            "no -m; change restarts"
        )
    return [f"resume={AUTO}", "restarts=0", override("hydra.run.dir", folder)]


class _Child:
    """The child process of the moment, to which signals are relayed."""

    def __init__(self) -> None:
        self.stopped_by = 0  # the signal that asked for an end
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, command: Sequence[str]) -> int:
        """Start it and wait for its end."""
        environment = {**os.environ, PARENT: str(os.getpid())}
        with blocked():  # until the child can answer
            # A group of its own: Ctrl-C reaches it once, through us, and not a second time from the terminal.
            self._process = subprocess.Popen(command, process_group=0, env=environment)
        self.pid = self._process.pid
        if self.stopped_by:  # while it was being started, so that the signal did not reach it
            self._process.send_signal(self.stopped_by)
        return self._process.wait()

    @contextlib.contextmanager
    def relaying(self) -> Iterator[None]:
        """Relay signals to the child while open."""
        with handling(self._relay, ALL):
            yield

    def _relay(self, number: int, frame: FrameType | None) -> None:
        if number in ENDING:
            self.stopped_by = number
        if self._process is not None:
            self._process.send_signal(number)


def _crashed(code: int, *, begun: bool) -> bool:
    """Return whether an end is worth another attempt; `begun`: the process came to train."""
    return -code not in ENDING if code < 0 else code == 1 and begun


def owner_of(folder: Path) -> int | None:
    """Return the process that last began to train in the folder, None before."""
    pid = read_status(folder).get("pid")
    return pid if isinstance(pid, int) else None


def settle(folder: Path, pid: int, code: int) -> None:
    """Set the status of a run whose process the system has ended, which could not do so itself."""
    status = read_status(folder)
    if code < 0 and status.get("pid") == pid and status.get("state") == "running":
        with contextlib.suppress(OSError):
            state: State = "interrupted" if -code in ENDING else "failed"
            write_status(folder, state, _described(code), int(status.get("frames", 0)))


def _described(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"
