"""ranks=N: torchrun's launcher starts N processes on this machine, which train one run together."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import sys
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from navrl.config.checks import ConfigError, require_whole
from navrl.config.quoting import override
from navrl.config.signals import PARENT, SAVING, handling, stoppable
from navrl.ranks import check_shares, cores, world
from navrl.run.messages import resume_command
from navrl.run.plan import AUTO, by_key, found_run, is_run
from navrl.run.supervisor import (
    Ended,
    owner_of,
    restart_crashed,
    settle,
    supervised_folder,
    supervised_words,
    train_supervised,
)

_POLL_S = 0.2  # between looks at the processes
_LAST_SAVE_S = 3600  # after a signal; ranks that are lost or frozen end much earlier
_WRONG_OPTION = 2  # exit code


def trained_elsewhere(cfg: DictConfig) -> bool:
    """Train in other processes if the options want that, and return whether they did.

    Exit with the code of the one that failed.
    """
    require_whole("restarts", cfg.restarts, 0)
    if world()[1] > 1:
        _check_within_torchrun(cfg)
        return False
    if cfg.ranks != AUTO:
        require_whole("ranks", cfg.ranks, 1)
    number = 1
    if cfg.ranks != 1:
        folder, saved = found_run(cfg)
        number = _ranks_for(cfg, saved)
    if number > 1:
        code = _train_launched(cfg, number, folder)
        if code:
            sys.exit(code)
    elif cfg.restarts:
        train_supervised(cfg)
    return number > 1 or bool(cfg.restarts)


def _check_within_torchrun(cfg: DictConfig) -> None:
    """Raise ConfigError about options that are for a process that starts the others itself."""
    sweep = HydraConfig.get().mode is RunMode.MULTIRUN
    if sweep or cfg.restarts:
        raise ConfigError(
            f"{'-m' if sweep else f'restarts = {cfg.restarts}'} under torchrun; expected one training that "
            "torchrun itself restarts (--max-restarts, with resume=auto); leave it out"
        )


def _ranks_for(cfg: DictConfig, saved: Mapping[str, Any]) -> int:
    """Return how many processes are to train; `auto` is one for each GPU, or for each core.

    Raise ConfigError about a number that does not divide the run, which may go on from a `saved` one.
    """
    typed = by_key(HydraConfig.get().overrides.task)
    num_envs, shards = (
        cfg[name] if name in typed else saved.get(name, cfg[name])
        for name in ("num_envs", "shards")
    )
    shards_for = partial(_shards_for, shards, free=bool(saved) and "shards" not in typed)
    if cfg.ranks != AUTO:
        check_shares(num_envs, cfg.ranks, shards_for(cfg.ranks))
        return int(cfg.ranks)
    places = torch.cuda.device_count() if torch.cuda.is_available() else cores()
    return max(
        number
        for number in range(1, max(places, 1) + 1)
        if num_envs % math.lcm(number, shards_for(number)) == shards_for(number) % number == 0
    )


def _shards_for(shards: int | None, number: int, *, free: bool) -> int:
    """Return the shards of a run by so many ranks; one that goes on is `free` to have more than it had."""
    if shards is None:
        return number
    require_whole("shards", shards, 1)
    return math.lcm(shards, number) if free else shards


def _train_launched(cfg: DictConfig, number: int, folder: Path) -> int:
    """Train the run in `folder` by so many processes; return the exit code of the first one that failed."""
    hydra = HydraConfig.get()
    if hydra.mode is RunMode.MULTIRUN:
        raise ConfigError(
            f"ranks = {cfg.ranks} with -m; expected one of them: a sweep is faster with as many jobs side by "
            "side as there are cores (hydra/launcher=joblib); change ranks"
        )
    if not dist.is_available():
        raise ConfigError(
            f"ranks = {cfg.ranks}, and this build of torch has no torch.distributed; expected one with it; "
            "install another build, or leave ranks out"
        )
    words = [*sys.argv[1:], "ranks=1"]
    if cfg.restarts:
        words += supervised_words(cfg, supervised_folder(cfg))
    else:
        fresh = folder if cfg.resume == AUTO else Path(hydra.runtime.output_dir)
        words.append(override("hydra.run.dir", fresh))
    for part in ("agent.server.api", "multiprocessing.api"):  # we say it shorter
        # Not by its level, which torch sets again.
        logging.getLogger(f"torch.distributed.elastic.{part}").disabled = True
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    os.environ[PARENT] = str(os.getpid())  # the ranks end with this process, however it ends
    attempt = partial(_launched, number, words, folder)
    try:
        if cfg.restarts:
            return restart_crashed(attempt, folder, cfg.restarts)
        ended = attempt()
    finally:
        os.environ.pop(PARENT, None)
    if ended.code < 0:
        again = f"{resume_command(folder)} ranks={number}"
        go_on = f"; go on from the last save with: {again}" if is_run(folder) else ""
        sys.stderr.write(f"navrl: {ended.words}{go_on}\n")
    return 128 - ended.code if ended.code < 0 else ended.code


def _launched(number: int, words: Sequence[str], folder: Path) -> Ended:
    """Start so many processes with these options, and wait for their end."""
    # Not at the top: some builds of torch lack them.
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=number,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        # torchrun would also restart after a wrong option.
        max_restarts=0,
        monitor_interval=_POLL_S,
        shutdown_timeout=_LAST_SAVE_S,
    )
    before = owner_of(folder)

    def relay(_number: int, _frame: FrameType | None) -> None:
        """Let rank 0 save once it trains; the signal goes to it alone, and it tells the others."""
        pid = owner_of(folder)
        if pid is not None and pid != before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, SAVING)

    try:
        with stoppable(), handling(relay, [SAVING]):  # torch leaves handlers of its own behind
            elastic_launch(config, sys.executable)("-m", "navrl.train", *words)
    except ChildFailedError as error:
        return _failed(error.failures, folder)
    except SignalException as stop:
        return Ended(128 + int(stop.sigval), "training was stopped", stopped=True)
    return Ended(0, "training has finished")


def _failed(failures: Mapping[int, Any], folder: Path) -> Ended:
    """Return how the rank ended that failed first; one that was killed took the others along."""
    rank, failure = min(
        failures.items(), key=lambda item: (_order(item[1].exitcode), item[1].timestamp)
    )
    code = int(failure.exitcode)
    if rank == 0:
        settle(folder, failure.pid, code)
    if code > 0:
        return Ended(code, f"training ended with exit code {code}")
    name = signal.Signals(-code).name
    return Ended(code, f"rank {rank} was killed by {name}, so the others ended too")


def _order(code: int) -> int:
    """Return a smaller number for an exit code that explains those of the other ranks."""
    if code < 0 and -code != signal.SIGTERM:
        return 0
    return 1 if code == _WRONG_OPTION else 2
