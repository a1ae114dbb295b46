"""What each way of collecting costs, alone and with learning; medians of alternating repeats.

    .venv/bin/python scripts/bench_collect.py alone [env=combat] ...     # against TorchRL's defaults, eager
    .venv/bin/python scripts/bench_collect.py learning [env=navigation agent=ppo_navigation] ...
    .venv/bin/python scripts/bench_collect.py memory [env=navigation agent=ppo_navigation] ...

Takes the options of `python -m navrl.train`, and `collectors=sync,pipelined` and `repeats=5`. A busy machine
slows all ways alike: read the ratios. `memory` is the peak of a process for each way, minus that of one that
has built everything and collected nothing.
"""

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torchrl.collectors import Collector
from torchrl.envs import EnvBase

from navrl.config.compose import build, compose
from navrl.run.device import prepare_process

WAYS = {
    "alone": "sync,stepwise,compressed",
    "learning": "sync,pipelined,stepwise,compressed",
    "memory": "nothing,sync,stepwise,compressed",
}
FAST_PATH = ("step_and_maybe_reset",)


def main() -> None:
    """Measure one of the three."""
    what, *words = sys.argv[1:] or ["help"]
    if what not in WAYS:
        raise SystemExit(__doc__)
    options = dict(word.split("=", 1) for word in words)
    ways = options.pop("collectors", WAYS[what]).split(",")
    repeats = int(options.pop("repeats", 5))
    overrides = [f"{name}={value}" for name, value in options.items()]
    prepare_process(compose("train", overrides).threads)
    {"alone": alone, "learning": learning, "memory": memory}[what](ways, overrides, repeats)


class Run:
    """An env, an agent and a collector of their own."""

    def __init__(self, way: str, overrides: list[str]) -> None:
        cfg = compose("train", [*overrides, f"collector={way}"])
        torch.manual_seed(0)
        self.env = build(cfg.env)(num_envs=cfg.num_envs, device="cpu", seed=0)
        self.agent = build(cfg.agent)(
            observation_spec=self.env.observation_spec,
            action_spec=self.env.action_spec,
            device="cpu",
            num_iterations=10**6,
        )
        make = build(cfg.collector)
        if getattr(make.func, "lag", 0):
            self.agent.allow_lag()
        self.frames = cfg.num_envs * cfg.rollout_steps
        self.collector = make(
            env=self.env,
            policy=self.agent.policy,
            rollout_steps=cfg.rollout_steps,
            total_frames=-1,
        )
        self.rollouts = iter(self.collector)
        self.metrics: dict[str, float] = {}

    def collect(self) -> None:
        """One rollout."""
        next(self.rollouts)

    def learn(self) -> None:
        """One iteration, as navrl.train makes it."""
        rollout = next(self.rollouts)
        with self.collector.ahead():
            self.agent.update(rollout)
        self.metrics = self.collector.metrics()


def stock(overrides: list[str]) -> Callable[[], object]:
    """TorchRL's collector with its default settings, on the same env, eager and without its fast path."""
    cfg = compose("train", [*overrides, "compile=off"])
    run = Run("sync", [*overrides, "compile=off"])
    own = type(run.env)
    slow = {name: getattr(EnvBase, name) for name in FAST_PATH}
    run.env.__class__ = type(own.__name__, (own,), slow)
    collector = Collector(
        run.env,
        run.agent.policy,
        frames_per_batch=cfg.num_envs * cfg.rollout_steps,
        total_frames=-1,
    )
    rollouts = iter(collector)
    return lambda: next(rollouts)


class Seconds(NamedTuple):
    """Of one section."""

    clock: float
    processor: float  # of all threads together: what it takes where no core is idle


def alternate(sections: dict[str, Callable[[], object]], repeats: int) -> dict[str, Seconds]:
    """Medians of every section, measured in turns; the first two warm and compile."""
    samples: dict[str, list[Seconds]] = {name: [] for name in sections}
    for turn in range(repeats + 2):
        for name, section in sections.items():
            started = time.perf_counter(), time.process_time()
            section()
            if turn > 1:
                took = time.perf_counter() - started[0], time.process_time() - started[1]
                samples[name].append(Seconds(*took))
    return {
        name: Seconds(*(statistics.median(column) for column in zip(*rows, strict=True)))
        for name, rows in samples.items()
    }


def show(seconds: dict[str, Seconds], first: str, frames: int) -> None:
    """Milliseconds, frames per second, and how many times as fast as the first."""
    print(f"{'':<28}{'ms':>9}{'CPU ms':>9}{'frames/s':>12}{'x':>8}{'x in CPU time':>16}")
    for name, (clock, processor) in seconds.items():
        times = f"{clock * 1e3:9.1f}{processor * 1e3:9.1f}{frames / clock:12,.0f}"
        ratios = seconds[first].clock / clock, seconds[first].processor / processor
        print(f"{name:<28}{times}{ratios[0]:8.3f}{ratios[1]:16.3f}")


def alone(ways: list[str], overrides: list[str], repeats: int) -> None:
    """Collection without learning."""
    runs = {way: Run(way, overrides) for way in ways}
    sections: dict[str, Callable[[], object]] = {way: run.collect for way, run in runs.items()}
    name = "TorchRL's defaults, eager"
    seconds = alternate({name: stock(overrides), **sections}, repeats)
    show(seconds, name, next(iter(runs.values())).frames)


def learning(ways: list[str], overrides: list[str], repeats: int) -> None:
    """Whole iterations."""
    runs = {way: Run(way, overrides) for way in ways}
    seconds = alternate({way: run.learn for way, run in runs.items()}, repeats)
    show(seconds, ways[0], runs[ways[0]].frames)
    for way, run in runs.items():
        if run.metrics:
            print(way, ", ".join(f"{name} {value:.3g}" for name, value in run.metrics.items()))


def memory(ways: list[str], overrides: list[str], repeats: int) -> None:
    """The peak of a process, for each way in one of its own."""
    if len(ways) == 1:
        run = Run("sync" if ways == ["nothing"] else ways[0], overrides)
        for _ in range(repeats if ways != ["nothing"] else 0):
            run.learn()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0)
        return
    peaks: dict[str, Any] = {}
    for way in ways:
        command = [sys.executable, __file__, "memory", *overrides]
        command += [f"collectors={way}", f"repeats={repeats}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        peaks[way] = float(done.stdout)
        print(f"{way:<12}{peaks[way]:9.1f} MB{peaks[way] - peaks[ways[0]]:+9.1f} MB")


if __name__ == "__main__":
    main()
