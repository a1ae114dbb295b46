"""Steps per second of the envs for teams, compiled and eager, on one thread.

    .venv/bin/python scripts/bench_team_simulators.py [--env coverage] [--turns 5] [--compile off]

A step is all of step_and_maybe_reset: what everybody does, who is served, rewards, observations, restarts.
Processor time is counted, so that a busy machine spoils little. Two are measured in C too, without statistics
of episodes and restarts: alice_and_bob and what its agents are told, without rewards (scripts/grid_kernel.c),
and coverage with its reward and histograms (scripts/coverage_kernel.c).
"""

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from coverage_kernel import CoverageKernel
from grid_kernel import GridKernel
from navrl.config.compose import build, compose
from navrl.envs.alice_and_bob import sim as grid
from navrl.envs.coverage.sim import advance as coverage
from navrl.run.device import prepare_process


class Case(NamedTuple):
    """What is measured, and how fast it has to be."""

    num_envs: int
    required: float  # steps per second, compiled
    overrides: tuple[str, ...] = ()


CASES = {
    "alice_and_bob": Case(8192, 1e6),
    "coverage": Case(4096, 5e4),
    "coverage_relay": Case(4096, 5e4),
    "coverage_compat": Case(4096, 5e4),
}
STEPS = 10  # in a turn


def turn_s(step: Callable[[], object]) -> float:
    """Processor seconds of STEPS calls."""
    started = time.thread_time()
    for _ in range(STEPS):
        step()
    return time.thread_time() - started


def steps_per_second(name: str, case: Case, mode: str, turns: int) -> tuple[float, float]:
    """Of the quickest turn; and the seconds of processor time of the first step, which compiles."""
    config = compose("train", [f"env={name}", f"compile={mode}", *case.overrides])
    env = build(config.env)(num_envs=case.num_envs, device="cpu", seed=0)
    torch.manual_seed(0)
    action = env.full_action_spec[env.action_key].rand()
    root = env.reset()

    def step() -> None:
        nonlocal root
        _, root = env.step_and_maybe_reset(root.set(env.action_key, action))

    started = time.process_time()
    step()
    first_s = time.process_time() - started
    step()
    best_s = min(turn_s(step) for _ in range(turns))
    return case.num_envs * STEPS / best_s, first_s


def grid_step(config: Any, num_envs: int) -> Callable[[], object]:
    """A step of alice_and_bob in C."""
    params = build(config.env.sim)
    action = torch.randint(5, (params.num_agents, num_envs), dtype=torch.int32)
    opening = grid.opening_state(params, torch.arange(num_envs))
    return GridKernel(params).bound(opening, action)


def coverage_step(config: Any, num_envs: int) -> Callable[[], object]:
    """A step of coverage in C."""
    params = build(config.env.sim)
    action = 2.0 * torch.rand(3, params.num_drones, num_envs) - 1.0
    opening = coverage.opening_state(params, torch.arange(num_envs))
    kernel = CoverageKernel(params, build(config.env.observation), build(config.env.reward))
    return kernel.bound(opening, action)


KERNELS = {"alice_and_bob": grid_step, "coverage": coverage_step}


def kernel_steps_per_second(name: str, case: Case, turns: int) -> float:
    """Of the quickest turn of the kernel in C."""
    torch.manual_seed(0)
    config = compose("train", [f"env={name}", *case.overrides])
    step = KERNELS[name](config, case.num_envs)
    step()
    return case.num_envs * STEPS / min(turn_s(step) for _ in range(turns))


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--env", choices=CASES, nargs="+", default=list(CASES))
    parser.add_argument("--turns", type=int, default=5, help="of which the quickest counts")
    parser.add_argument("--compile", choices=["on", "off"], nargs="+", default=["off", "on"])
    options = parser.parse_args()
    prepare_process(threads=1)
    print(f"{'env':<16} {'envs':>6} {'compile':>8} {'steps/s':>12} {'first step s':>13}")
    for name in options.env:
        case = CASES[name]
        for mode in options.compile:
            speed, first_s = steps_per_second(name, case, mode, options.turns)
            met = "met" if speed >= case.required else "MISSED"
            goal = f"   required {case.required:,.0f}: {met}" if mode == "on" else ""
            print(
                f"{name:<16} {case.num_envs:>6} {mode:>8} {speed:>12,.0f} {first_s:>13.1f}{goal}",
                flush=True,
            )
        if name in KERNELS:
            speed = kernel_steps_per_second(name, case, options.turns)
            print(f"{name:<16} {case.num_envs:>6} {'in C':>8} {speed:>12,.0f}", flush=True)


if __name__ == "__main__":
    main()
