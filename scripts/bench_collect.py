"""Compare ways of collecting: alone, with learning, or by peak memory; medians of alternating repeats.

    .venv/bin/python scripts/bench_collect.py alone [env=combat] ...     # against TorchRL's defaults, eager
    .venv/bin/python scripts/bench_collect.py learning [env=navigation agent=ppo_navigation] ...
    .venv/bin/python scripts/bench_collect.py memory [env=navigation agent=ppo_navigation] ...

A busy machine slows all collectors alike: read the ratios. `memory` is the peak of a process for each
collector, minus that of a process that has built everything and collected nothing.
"""

import resource
import subprocess
import sys
from collections.abc import Callable

import torch
from torchrl.collectors import Collector
from torchrl.envs import EnvBase

from navrl.config.compose import build, compose
from navrl.run.device import prepare_process
from timing import Seconds, alternate, median, parser

COLLECTORS = {
    "alone": "sync,stepwise,compressed",
    "learning": "sync,pipelined,stepwise,compressed",
    "memory": "nothing,sync,stepwise,compressed",
}
FAST_PATH = ("step_and_maybe_reset",)


def main() -> None:
    """Compare the collectors in one of three ways."""
    options_parser = parser(__doc__, repeats=5)
    options_parser.add_argument("what", choices=COLLECTORS)
    options_parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="as for navrl.train"
    )
    options_parser.add_argument("--collectors", help="names with commas between; default: all")
    options = options_parser.parse_intermixed_args()
    names = (options.collectors or COLLECTORS[options.what]).split(",")
    prepare_process(compose("train", options.overrides).threads)
    compare = {"alone": alone, "learning": learning, "memory": memory}[options.what]
    compare(names, options.overrides, options.repeats)


class Run:
    """An env, an agent and a collector of their own."""

    def __init__(self, name: str, overrides: list[str]) -> None:
        cfg = compose("train", [*overrides, f"collector={name}"])
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
        """Collect one rollout."""
        next(self.rollouts)

    def learn(self) -> None:
        """Run one iteration, as navrl.train does."""
        rollout = next(self.rollouts)
        with self.collector.ahead():
            self.agent.update(rollout)
        self.metrics = self.collector.metrics()


def stock(overrides: list[str]) -> Callable[[], object]:
    """Return a function that collects with TorchRL's default settings, eager and without the fast path."""
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


def medians(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, Seconds]:
    """Return the median times of all, called in turns; the first two turns warm and compile."""
    samples = alternate(functions, repeats, warm=2)
    return {name: median(times) for name, times in samples.items()}


def show(seconds: dict[str, Seconds], first: str, frames: int) -> None:
    """Print milliseconds, frames per second, and the speed relative to the first."""
    print(f"{'':<28}{'ms':>9}{'CPU ms':>9}{'frames/s':>12}{'x':>8}{'x in CPU time':>16}")
    for name, (clock, processor, _) in seconds.items():
        times = f"{clock * 1e3:9.1f}{processor * 1e3:9.1f}{frames / clock:12,.0f}"
        ratios = seconds[first].clock / clock, seconds[first].processor / processor
        print(f"{name:<28}{times}{ratios[0]:8.3f}{ratios[1]:16.3f}")


def alone(names: list[str], overrides: list[str], repeats: int) -> None:
    """Compare collection without learning."""
    runs = {name: Run(name, overrides) for name in names}
    functions: dict[str, Callable[[], object]] = {name: run.collect for name, run in runs.items()}
    first = "TorchRL's defaults, eager"
    show(medians({first: stock(overrides), **functions}, repeats), first, runs[names[0]].frames)


def learning(names: list[str], overrides: list[str], repeats: int) -> None:
    """Compare whole iterations."""
    runs = {name: Run(name, overrides) for name in names}
    seconds = medians({name: run.learn for name, run in runs.items()}, repeats)
    show(seconds, names[0], runs[names[0]].frames)
    for name, run in runs.items():
        if run.metrics:
            print(name, ", ".join(f"{key} {value:.3g}" for key, value in run.metrics.items()))


def memory(names: list[str], overrides: list[str], repeats: int) -> None:
    """Print the peak of a process of its own for each collector."""
    if len(names) == 1:
        run = Run("sync" if names == ["nothing"] else names[0], overrides)
        for _ in range(repeats if names != ["nothing"] else 0):
            run.learn()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0)
        return
    peaks: dict[str, float] = {}
    for name in names:
        command = [sys.executable, __file__, "memory", "--collectors", name]
        command += ["--repeats", str(repeats), *overrides]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        peaks[name] = float(done.stdout)
        print(f"{name:<12}{peaks[name]:9.1f} MB{peaks[name] - peaks[names[0]]:+9.1f} MB")


if __name__ == "__main__":
    main()
