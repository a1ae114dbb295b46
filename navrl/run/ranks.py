"""Several ranks of one run: rank 0 plans it and keeps its directory, the others train by its plan."""

from __future__ import annotations

import contextlib
import platform
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from omegaconf import DictConfig

from navrl import __version__
from navrl.config.checks import ConfigError, printable
from navrl.config.plugins import allow_plugins
from navrl.config.signals import number_of
from navrl.envs.core.compiling import eager_at_first
from navrl.ranks import (
    RankLost,
    Ranks,
    is_follower,
    lost_ranks,
    own_rows,
    process_group,
    ranks_of,
    world,
)
from navrl.run.build import Parts, build_parts
from navrl.run.launch import trained_elsewhere
from navrl.run.plan import Plan, plan_run
from navrl.run.records import Records, silent_records
from navrl.run.signals import Interrupt


@contextlib.contextmanager
def planned(
    cfg: DictConfig, begun: Callable[[Path], object] = lambda _: None
) -> Iterator[Plan | None]:
    """Plan the run as rank 0, which may be the only one, and send the plan to the others.

    The plan is None if there is nothing left to train, or if the options want other processes to train.
    """
    if trained_elsewhere(cfg):
        yield None
        return
    several = world()[1] > 1
    with contextlib.ExitStack() as stack:
        stack.enter_context(process_group())
        if several:
            _require_same_versions()
        plan = stack.enter_context(plan_run(cfg, begun))
        if several:
            _broadcast(None if plan is None else plan._replace(lock=None, ranks=Ranks()))  # type: ignore[arg-type]
        with _rows(plan):
            yield plan


def follow(loop: Callable[[Plan, Parts, Records, Interrupt], object]) -> bool:
    """Train by the plan of rank 0, and leave nothing; return False in rank 0, without doing anything.

    The exit code is 0 however rank 0 ends the run; a failure of this rank is one sentence.
    """
    if not is_follower():
        return False
    warnings.simplefilter("ignore")  # rank 0 warns of the same
    rank, _ = world()
    try:
        with process_group():
            _require_same_versions()
            plan: Plan | None = _broadcast(None)
            if plan is None:
                return True
            allow_plugins([f"plugins=[{','.join(plan.cfg.plugins)}]"])
            plan.cfg.profile = False  # rank 0 does
            plan = plan._replace(ranks=ranks_of(plan.cfg.num_envs, plan.cfg.shards))
            with (
                _rows(plan),
                eager_at_first(plan.done),
                Interrupt(lambda: None, silent=True) as interrupt,
            ):
                parts = build_parts(plan)
                try:
                    if plan.total > plan.done:  # else rank 0 only evaluates
                        loop(plan, parts, silent_records(plan, parts), interrupt)
                finally:
                    parts.collector.shutdown()
    except SystemExit:
        pass
    except KeyboardInterrupt as stop:
        sys.exit(128 + number_of(stop))
    except RankLost:
        sys.exit(1)  # the one that has ended says why
    except (ConfigError, RuntimeError, OSError) as error:
        sys.stderr.write(f"navrl: rank {rank} ends: {error}\n")
        sys.exit(2 if isinstance(error, ConfigError) else 1)
    return True


def _rows(plan: Plan | None) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if plan is None else own_rows(plan.ranks, plan.cfg.num_envs)


def _require_same_versions() -> None:
    """Raise ConfigError in rank 0, and end the others, unless all ranks run the same versions."""
    own = {
        "navrl": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }
    every: list[Any] = [None] * world()[1]
    with lost_ranks():
        dist.all_gather_object(every, (socket.gethostname(), own))
    first = every[0][1]
    for rank, (host, found) in enumerate(every):
        differing = [f"{name} {found[name]}" for name in own if found[name] != first[name]]
        if not differing:
            continue
        if is_follower():
            raise RankLost("rank 0 refuses other versions than its own")
        wanted = ", ".join(f"{name} {first[name]}" for name in own if found[name] != first[name])
        place = printable(host)
        raise ConfigError(
            f"rank {rank} on {place} has {printable(', '.join(differing))}, and rank 0 has {wanted}; "
            f"expected the same on all hosts; install the same on {place}"
        )


def _broadcast(value: Any) -> Any:
    """Return the value that rank 0 has given."""
    box = [value]
    with lost_ranks():
        dist.broadcast_object_list(box, src=0)
    return box[0]
