"""Measure steps per second of the envs for teams, compiled and eager, on one thread.

    .venv/bin/python scripts/bench_team_simulators.py [--env coverage] [--repeats 5] [--compile off]

A step is all of step_and_maybe_reset: simulation, rewards, observations, restarts. Processor time is
counted, so that a busy machine spoils little. Two are measured in C too, without statistics
of episodes and restarts: alice_and_bob with its observations, without rewards
(scripts/kernels/alice_and_bob.c), and coverage with its reward and histograms (scripts/kernels/coverage.c).
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from kernels.alice_and_bob import GridKernel
from kernels.coverage import CoverageKernel
from navrl.config.compose import build, compose
from navrl.envs.alice_and_bob import sim as grid
from navrl.envs.coverage.sim import advance as coverage
from navrl.run.device import prepare_process
from timing import alternate, best, parser


class Case(NamedTuple):
    """An env, and the speed that is required."""

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


def best_turn_s(step: Callable[[], object], turns: int) -> float:
    """Return the shortest processor time of STEPS calls, in seconds."""

    def turn() -> None:
        for _ in range(STEPS):
            step()

    return best(alternate({"": turn}, turns)[""]).thread


def steps_per_second(name: str, case: Case, mode: str, turns: int) -> tuple[float, float]:
    """Return steps per second of the quickest turn, and seconds of the first step, which compiles."""
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
    return case.num_envs * STEPS / best_turn_s(step, turns), first_s


def grid_step(config: Any, num_envs: int) -> Callable[[], object]:
    """Return a step of alice_and_bob in C."""
    params = build(config.env.sim)
    action = torch.randint(5, (params.num_agents, num_envs), dtype=torch.int32)
    opening = grid.initial_state(params, torch.arange(num_envs))
    return GridKernel(params).bound(opening, action)


def coverage_step(config: Any, num_envs: int) -> Callable[[], object]:
    """Return a step of coverage in C."""
    params = build(config.env.sim)
    action = 2.0 * torch.rand(3, params.num_drones, num_envs) - 1.0
    opening = coverage.initial_state(params, torch.arange(num_envs))
    kernel = CoverageKernel(params, build(config.env.observation), build(config.env.reward))
    return kernel.bound(opening, action)


KERNELS = {"alice_and_bob": grid_step, "coverage": coverage_step}


def kernel_steps_per_second(name: str, case: Case, turns: int) -> float:
    """Return steps per second of the quickest turn of the kernel in C."""
    torch.manual_seed(0)
    config = compose("train", [f"env={name}", *case.overrides])
    step = KERNELS[name](config, case.num_envs)
    step()
    return case.num_envs * STEPS / best_turn_s(step, turns)


def main() -> None:
    """Measure, print."""
    options_parser = parser(__doc__, repeats=5)
    options_parser.add_argument("--env", choices=CASES, nargs="+", default=list(CASES))
    options_parser.add_argument(
        "--compile", choices=["on", "off"], nargs="+", default=["off", "on"]
    )
    options = options_parser.parse_args()
    prepare_process(threads=1)
    print(f"{'env':<16} {'envs':>6} {'compile':>8} {'steps/s':>12} {'first step s':>13}")
    for name in options.env:
        case = CASES[name]
        for mode in options.compile:
            speed, first_s = steps_per_second(name, case, mode, options.repeats)
            met = "met" if speed >= case.required else "MISSED"
            goal = f"   required {case.required:,.0f}: {met}" if mode == "on" else ""
            print(
                f"{name:<16} {case.num_envs:>6} {mode:>8} {speed:>12,.0f} {first_s:>13.1f}{goal}",
                flush=True,
            )
        if name in KERNELS:
            speed = kernel_steps_per_second(name, case, options.repeats)
            print(f"{name:<16} {case.num_envs:>6} {'in C':>8} {speed:>12,.0f}", flush=True)


if __name__ == "__main__":
    main()
