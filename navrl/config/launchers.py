"""Jobs of sweeps in processes that a launcher of Hydra starts: what ends them, and what they leave."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import hydra
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus
from hydra.errors import CompactHydraException, HydraException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from navrl.config.checks import ConfigError
from navrl.config.compose import conf_dir, explain
from navrl.config.quoting import override, shell_line, shown_path
from navrl.config.signals import ALL, ENDING, Stopped, handling, name_of

_JOBLIB = "JoblibLauncher"  # whose processes are our children and take one job after another
_SIGNAL = 128  # exit codes above it are of signals
_stopped: list[int] = []  # the signal that this process has received, as a process for jobs


class JobFailed(CompactHydraException):
    """One job of a sweep failed for a reason its sentence explains; the others go on."""


class JobStopped(JobFailed):
    """A signal ended one job of the sweep in this folder, or came before it began."""


def launch_jobs(
    function: Callable[[DictConfig], float | None],
    config_name: str,
    jobs: Mapping[Path, Sequence[str]],
    hydra_words: Sequence[str],
) -> None:
    """Run jobs with Hydra's launcher, each in its folder of the sweep's, and print why some failed.

    `hydra_words` choose the launcher, as in hydra/launcher=joblib.
    """
    (folder,) = {path.parent for path in jobs}
    words = ["hydra.mode=MULTIRUN", override("hydra.sweep.dir", folder), *hydra_words]
    with hydra.initialize_config_dir(str(conf_dir()), config_name, version_base="1.3"):
        loader: Any = GlobalHydra.instance().config_loader()
        try:
            config = loader.load_configuration(
                config_name=config_name, overrides=words, run_mode=RunMode.MULTIRUN
            )
        except (HydraException, OmegaConfBaseException) as error:
            raise ConfigError(explain(error, config_name, words)) from error
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=HydraContext(config_loader=loader, callbacks=Callbacks(config)),
            task_function=function,
            config=config,
        )
        placed = [[*own, override("hydra.sweep.subdir", path.name)] for path, own in jobs.items()]
        with waiting_for_jobs(config.hydra.launcher["_target_"], folder):
            results = launcher.launch(placed, initial_job_idx=0)
        for result in results:
            if result.status is JobStatus.FAILED:
                sys.stderr.write(f"{result._return_value}\n")


@contextlib.contextmanager
def waiting_for_jobs(launcher: str, folder: Path | None = None) -> Iterator[None]:
    """Relay signals to jobs in processes of joblib while open, and wait until they have saved.

    joblib itself would kill them. A second signal of that kind ends everything at once. Without the
    folder of the sweep, which Hydra may choose, it is that of a job that was stopped.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # by Ray, which reports by default
    if not launcher.endswith(_JOBLIB):
        yield
        return
    with contextlib.ExitStack() as silence:
        relay = _Relay(silence, folder)
        silence.enter_context(handling(relay, ALL))
        try:
            yield
        except Stopped:
            raise
        except BaseException as error:  # whatever joblib makes of jobs that ended
            relay.raise_if_stopped(error)
            raise
        relay.raise_if_stopped(None)


class _Relay:
    """A handler that sends signals on to child processes; Hydra's words about those that end are left out."""

    def __init__(self, silence: contextlib.ExitStack, folder: Path | None) -> None:
        self._number = 0  # the first that ends jobs
        self._silence, self._folder = silence, folder

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._number and number in ENDING:
            raise Stopped(number, "stopped at once; jobs go on from their last checkpoint")
        if number in ENDING:
            self._number = number
            self._silence.enter_context(contextlib.redirect_stderr(io.StringIO()))
        for child in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    def raise_if_stopped(self, cause: BaseException | None) -> None:
        """Raise Stopped if a signal has ended the jobs."""
        if self._number:
            sentence = f"the jobs were stopped by {name_of(self._number)}"
            job = (
                cause.__context__ if cause is not None else None
            )  # Hydra exits with an error of it
            folder = Path(str(job)) if isinstance(job, JobStopped) else self._folder
            if folder is not None:
                again = ["navrl", "sweep", "--missing", shown_path(folder), "--run"]
                sentence += f". To go on:  {shell_line(again)}"
            raise Stopped(self._number, sentence) from cause


def unless_stopped(function: Callable[[DictConfig], float | None], config: DictConfig) -> Any:
    """Return function(config); raise JobFailed in a process of joblib that a signal has ended.

    An exit would make joblib kill the other jobs before they have saved, and begin the next one here.
    """
    if not str(HydraConfig.get().launcher["_target_"]).endswith(_JOBLIB):
        return function(config)
    if not _stopped:
        try:
            return function(config)
        except KeyboardInterrupt as stop:
            _stopped.append(_SIGNAL)
            raise _stopped_job() from stop
        except SystemExit as stop:
            if not isinstance(stop.code, int) or stop.code <= _SIGNAL:
                raise
            _stopped.append(stop.code)
    raise _stopped_job()


def _stopped_job() -> JobFailed:
    """Return the error of a job that a signal has ended; only trainings can go on."""
    hydra_config = HydraConfig.get()
    if hydra_config.job.config_name != "train":
        return JobFailed("stopped by a signal")
    return JobStopped(str(hydra_config.sweep.dir))


def _children() -> list[int]:
    """Return the processes that this one has started, where the system lists them."""
    found: list[int] = []
    for threads in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, threads.read_text(encoding="ascii").split())
    return found
