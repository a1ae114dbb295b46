"""Drone navigation without a policy: env steps per CPU second, compiled and eager, and memory over time."""

import argparse
import resource
import time

import torch

from navrl.config import build, compose

_WARM_UP = 10


def main() -> None:
    """Print one line per way of running."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="navigation_compat")
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for mode in ("on", "off"):
        first_s, rate, growth_mb = measure(options, mode)
        name = "compiled" if mode == "on" else "eager"
        print(
            f"{name:<9} first step {first_s:5.1f} s   {rate:9,.0f} env steps/s   "
            f"memory grew by {growth_mb:.1f} MB in {options.steps} steps"
        )


def measure(options: argparse.Namespace, mode: str) -> tuple[float, float, float]:
    """CPU seconds of the first step, env steps per CPU second of the median one, and growth in MB."""
    config = compose("train", [f"env={options.env}", f"compile={mode}", *options.set])
    env = build(config.env)(num_envs=options.num_envs, device="cpu", seed=0)
    root = env.reset()
    torch.manual_seed(0)
    times = []
    for step in range(_WARM_UP + options.steps):
        if step == _WARM_UP:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        root.set("action", torch.rand(options.num_envs, 3) * 2.0 - 1.0)
        started = time.thread_time()
        _, root = env.step_and_maybe_reset(root)
        times.append(time.thread_time() - started)
    median = sorted(times[_WARM_UP:])[options.steps // 2]
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return times[0], options.num_envs / median, growth / 1024.0


if __name__ == "__main__":
    main()
