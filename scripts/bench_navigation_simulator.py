"""Measure drone navigation without a policy: env steps per CPU second, compiled and eager, and memory.

    .venv/bin/python scripts/bench_navigation_simulator.py [--env navigation] [--no-kernel] [shield=on] ...

A decision of the simulator is measured in C too (scripts/kernels/navigation.c): in the fewest
operations, and with every ray cut with every place of a cell's list, as tensors do it. Both in turns with the
compiled simulator and with the whole compiled step, which also has reward, observation, statistics and
restarts. Processor time is counted, so that a busy machine spoils little; read the ratios.
"""

import argparse
import resource
import time
from typing import Any

import torch

from bench_simulator import median_us
from kernels.navigation import NavigationKernel, under_way
from navrl.config.compose import build, compose
from navrl.envs.core.compiling import Compiled
from navrl.envs.core.packing import Packed, Packing, pack
from navrl.envs.navigation.sim.advance import advance
from navrl.run.device import prepare_process
from timing import parser

_WARM_UP = 10


def main() -> None:
    """Print one line per way of running, then the kernel beside the compiled ones."""
    options_parser = parser(__doc__, overrides=True, repeats=15)
    options_parser.add_argument("--env", default="navigation_compat")
    options_parser.add_argument("--num-envs", type=int, default=1024)
    options_parser.add_argument("--steps", type=int, default=200)
    options_parser.add_argument(
        "--no-kernel", action="store_true", help="do without C, which knows drone=second_order only"
    )
    options = options_parser.parse_args()
    prepare_process(threads=1)
    envs = {}
    for mode, name in (("on", "compiled"), ("off", "eager")):
        envs[mode] = env = make(options, mode)
        first_s, rate, growth_mb = measure(env, options.steps)
        print(
            f"{name:<9} first step {first_s:5.1f} s   {rate:9,.0f} env steps/s   "
            f"memory grew by {growth_mb:.1f} MB in {options.steps} steps",
            flush=True,
        )
    if not options.no_kernel:
        show(options.num_envs, compare(envs["on"], options.repeats))


def make(options: argparse.Namespace, mode: str) -> Any:
    """Return the env that is measured."""
    config = compose("train", [f"env={options.env}", f"compile={mode}", *options.overrides])
    return build(config.env)(num_envs=options.num_envs, device="cpu", seed=0)


def measure(env: Any, steps: int) -> tuple[float, float, float]:
    """Return CPU seconds of the first step, env steps per CPU second of the median one, growth in MB."""
    root, num_envs = env.reset(), env.batch_size[0]
    torch.manual_seed(0)
    times = []
    for step in range(_WARM_UP + steps):
        if step == _WARM_UP:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        root.set("action", torch.rand(num_envs, 3) * 2.0 - 1.0)
        started = time.thread_time()
        _, root = env.step_and_maybe_reset(root)
        times.append(time.thread_time() - started)
    median = sorted(times[_WARM_UP:])[steps // 2]
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return times[0], num_envs / median, growth / 1024.0


@torch.no_grad()
def compare(env: Any, turns: int) -> dict[str, float]:
    """Return median microseconds: a decision in C, the compiled one, the whole compiled step."""
    params, grid, worlds = env.params, env.worlds.grid, env.worlds.openings.worlds
    draw = torch.Generator().manual_seed(0)
    root = env.reset()
    state, command = under_way(params, env.state, draw)
    for _ in range(3):  # after the first, few obstacles are at their goals
        state, _ = advance(params, grid, worlds, state, command, command)
    packing, packed = Packing(state), pack(state)

    def decide(packed: Packed, command: torch.Tensor) -> Packed:
        return pack(advance(params, grid, worlds, packing.unpack(packed), command, command))

    def step() -> None:
        nonlocal root
        _, root = env.step_and_maybe_reset(root.set("action", action))

    decision, action = Compiled(decide, "on"), command.t() / params.speed_limit_mps
    kernels = {
        name: NavigationKernel(params, grid, worlds, shortcuts=taken).bound(state, command)
        for name, taken in (("in C", True), ("in C, every ray", False))
    }
    sections = {
        **kernels,
        "compiled": lambda: decision(packed, command),
        "compiled, whole step": step,
    }
    return median_us(sections, turns)


def show(num_envs: int, times_us: dict[str, float]) -> None:
    """Print a line for every section; the ratio is the time in C over that of the section."""
    print("\na decision, in turns           env steps/s   ratio")
    for name, value_us in times_us.items():
        ratio = times_us["in C"] / value_us
        print(f"{name:<24}{num_envs / value_us * 1e6:>18,.0f}{ratio:>8.3f}")


if __name__ == "__main__":
    main()
