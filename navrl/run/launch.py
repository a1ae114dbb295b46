"""ranks=N: torchrun's launcher starts N processes on this machine, which train one run together."""

from __future__ import annotations

import logging
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from navrl.config.checks import ConfigError, require_whole
from navrl.config.quoting import override
from navrl.config.signals import PARENT
from navrl.ranks import check_shares, cores, world
from navrl.run.messages import resume_command
from navrl.run.plan import AUTO, is_run
from navrl.run.supervisor import settle, supervised_folder, train_supervised

_POLL_S = 0.2  # between looks at the processes
_LAST_SAVE_S = 3600  # after a signal; ranks that are lost or frozen end much earlier


def trained_elsewhere(cfg: DictConfig) -> bool:
    """Train in other processes if the options want that, and return whether they did.

    Exit with the code of the one that failed.
    """
    require_whole("restarts", cfg.restarts, 0)
    if world()[1] > 1:
        _check_within_torchrun(cfg)
        return False
    number = _ranks_for(cfg)
    if number > 1:
        _train_launched(cfg, number)
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


def _ranks_for(cfg: DictConfig) -> int:
    """Return how many processes are to train; `auto` is one for each GPU, or for each core."""
    if cfg.ranks != AUTO:
        require_whole("ranks", cfg.ranks, 1)
        return int(cfg.ranks)
    places = torch.cuda.device_count() if torch.cuda.is_available() else cores()
    shards = cfg.shards or cfg.num_envs
    return max(n for n in range(1, max(places, 1) + 1) if cfg.num_envs % n == shards % n == 0)


def _train_launched(cfg: DictConfig, number: int) -> None:
    """Train in so many processes; exit with the code of the first one that failed."""
    hydra = HydraConfig.get()
    if hydra.mode is RunMode.MULTIRUN:
        raise ConfigError(
            f"ranks = {cfg.ranks} with -m; expected one of them: a sweep is faster with as many jobs side by "
            "side as there are cores (hydra/launcher=joblib); change ranks"
        )
    if cfg.resume is None:  # else the run has numbers of its own
        check_shares(cfg.num_envs, number, cfg.shards or number)
    again = cfg.restarts or cfg.resume == AUTO
    folder = supervised_folder(cfg) if again else Path(hydra.runtime.output_dir)
    resume = [f"resume={AUTO}", "restarts=0"] if cfg.restarts else []
    words = [*sys.argv[1:], "ranks=1", *resume, override("hydra.run.dir", folder)]
    for part in ("agent.server.api", "multiprocessing.api"):  # we say it shorter
        logging.getLogger(f"torch.distributed.elastic.{part}").setLevel(logging.CRITICAL)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=number,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=cfg.restarts,
        monitor_interval=_POLL_S,
        shutdown_timeout=_LAST_SAVE_S,
    )
    os.environ[PARENT] = str(os.getpid())  # the ranks end with this process, however it ends
    try:
        elastic_launch(config, sys.executable)("-m", "navrl.train", *words)
    except ChildFailedError as error:
        sys.exit(_failed(error, folder))
    except SignalException as stop:
        sys.exit(128 + stop.sigval)
    finally:
        os.environ.pop(PARENT, None)


def _failed(error: ChildFailedError, folder: Path) -> int:
    """Print which rank failed first unless it has said so itself; return the exit code."""
    failures: dict[int, Any] = error.failures
    killed = {r: f for r, f in failures.items() if f.exitcode < 0 and -f.exitcode != signal.SIGTERM}
    rank, failure = min((killed or failures).items(), key=lambda item: item[1].timestamp)
    if failure.exitcode > 0:
        return int(failure.exitcode)
    if rank == 0:
        settle(folder, failure.pid, failure.exitcode)
    name = signal.Signals(-failure.exitcode).name
    go_on = f"; go on from the last save with: {resume_command(folder)}" if is_run(folder) else ""
    sys.stderr.write(f"navrl: rank {rank} was killed by {name}, so the others ended too{go_on}\n")
    return 128 - int(failure.exitcode)
