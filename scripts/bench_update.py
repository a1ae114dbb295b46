"""CPU seconds of PPO's update without each accelerator of navrl/agents/fast and the one-call Adam, in turns.

    .venv/bin/python scripts/bench_update.py [agent.network.hidden_sizes=[64,64]] [action=continuous] ...

Takes the options of `python -m navrl.train`. All agents learn from copies of one rollout in one process; the
allocator, which is that of the whole process, is compared in processes of its own.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch

from navrl.agents.fast import products
from navrl.agents.networks import distributions
from navrl.config.compose import build, compose
from navrl.run.device import prepare_process

REPEATS = 9
WITHOUT: dict[str, Callable[[], Any]] = {
    "everything": lambda: mock.patch.object(products, "BY_ONEDNN", products.BY_ONEDNN),
    "without oneDNN": lambda: mock.patch.object(products, "BY_ONEDNN", False),
    "without the lgamma series": lambda: mock.patch.multiple(
        distributions, lgamma=torch.lgamma, digamma=torch.digamma
    ),
    "with torch's fused Adam": lambda: mock.patch(
        "navrl.agents.core.optimizer.OneCallAdam",
        lambda groups, epsilon: torch.optim.Adam(groups, eps=epsilon, fused=True),
    ),
}
ALONE = "BENCH_UPDATE_ALONE"  # set in child processes: tuned or default, the allocator


def seconds(options: list[str], variants: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the median CPU seconds of an update for every variant, run in turns."""
    config = compose("train", options)
    prepare_process(config.threads)
    env = build(config.env)(num_envs=config.num_envs, device="cpu", seed=0)
    agents, times = {}, {name: [] for name in variants}
    for name, changed in variants.items():
        with changed():
            torch.manual_seed(0)
            agents[name] = build(config.agent)(
                observation_spec=env.observation_spec,
                action_spec=env.action_spec,
                device="cpu",
                num_iterations=1 << 60,
            )
    collector = build(config.collector)(
        env=env,
        policy=agents["everything"].policy,
        rollout_steps=config.rollout_steps,
        total_frames=1 << 60,
    )
    rollout = next(iter(collector)).clone()
    for turn in range(REPEATS + 2):
        for name, agent in agents.items():
            agent.steps.max_kl, agent.guard.replay_tolerance = None, float("inf")
            agent.policy.version = 0
            with variants[name]():
                began = time.process_time()
                agent.update(rollout)
            if turn > 1:
                times[name].append(time.process_time() - began)
    return {name: statistics.median(found) for name, found in times.items()}


def alone(allocator: str) -> float:
    """Return the seconds of an update in a process of its own with this allocator."""
    run = [sys.executable, __file__, *sys.argv[1:]]
    environment = {**os.environ, ALONE: allocator}
    done = subprocess.run(run, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print a table."""
    if ALONE in os.environ:
        only = {"everything": WITHOUT["everything"]}
        with contextlib.ExitStack() as stack:
            if os.environ[ALONE] == "default":
                stack.enter_context(mock.patch("navrl.run.device.keep_freed_memory"))
            print(seconds(sys.argv[1:], only)["everything"])
        return
    rows = seconds(sys.argv[1:], WITHOUT)
    turns = [{name: alone(name) for name in ("tuned", "default")} for _ in range(3)]
    for name in ("tuned", "default"):
        rows[f"alone, {name} allocator"] = statistics.median(turn[name] for turn in turns)
    for name, value in rows.items():
        print(f"{name:28} {1000.0 * value:8.1f} ms")


if __name__ == "__main__":
    main()
