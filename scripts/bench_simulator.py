"""Compare the compiled combat simulator with a kernel written by hand, and with eager torch.

    .venv/bin/python scripts/bench_simulator.py [--sizes 1024 4096 16384] [--repeats 15] [--no-cold]

The kernel is scripts/kernels/combat.c, compiled here by gcc with the constants of conf/env/combat.yaml and
checked against the eager simulator before anything is timed. All three run one decision of one against one on
one thread, in turns, and processor time is counted, so that a busy machine spoils little; read the ratios.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from kernels.combat import Kernel, check_agreement, random_opening, random_orders
from navrl.config.compose import build, compose
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.state import Action, CombatParams, CombatState
from navrl.envs.core.compiling import Compiled
from navrl.envs.core.packing import Packed, Packing, pack
from navrl.run.device import prepare_process
from timing import alternate, median, parser

REQUIRED_RATIO, AIMED_RATIO = 0.2, 0.5  # of the kernel's time to the compiled simulator's
REQUIRED_COLD_S = 30.0
STEADY = 1.1  # cost per env over that of the smallest size, up to which it counts as the same
TURN_S = 0.01  # every section runs about this long in one repeat


class CompiledDecision:
    """The simulator as the environment compiles it: its state stays packed from step to step."""

    def __init__(self, params: CombatParams, state: CombatState) -> None:
        self._params, self._packing = params, Packing(state)
        self._decide = Compiled(self._decide_eager, "on")

    def __call__(self, state: Packed, action: Action) -> Packed:
        """Return the state after, and the events."""
        return self._decide(state, action)

    def _decide_eager(self, packed: Packed, action: Action) -> Packed:
        state = self._packing.unpack(packed)
        return pack(advance(self._params, state, action, joined=tuple))


def shipped_params() -> CombatParams:
    """Return the constants of conf/env/combat.yaml."""
    return build(compose("train", ["env=combat"]).env.sim).checked()


@torch.no_grad()
def measure(kernel: Kernel, params: CombatParams, num_envs: int, repeats: int) -> dict[str, float]:
    """Return median microseconds per decision of num_envs fights, some with missiles in the air."""
    draw = torch.Generator().manual_seed(0)
    state = random_opening(params, num_envs, draw)
    for _ in range(12):
        state, _ = advance(params, state, random_orders(num_envs, draw))
    action = random_orders(num_envs, draw)
    compiled, packed = CompiledDecision(params, state), pack(state)
    return median_us(
        {
            "kernel": kernel.bound(state, action, observe=False),
            "kernel and observation": kernel.bound(state, action, observe=True),
            "compiled": lambda: compiled(packed, action),
            "eager": lambda: advance(params, state, action),
        },
        repeats,
    )


def median_us(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return median microseconds of the thread's processor time, measured in turns of about TURN_S."""
    calls = {name: _calls(function) for name, function in functions.items()}
    turns = {name: partial(_repeat, calls[name], function) for name, function in functions.items()}
    samples = alternate(turns, repeats)
    return {name: median(times).thread / calls[name] * 1e6 for name, times in samples.items()}


def _repeat(times: int, function: Callable[[], object]) -> None:
    for _ in range(times):
        function()


def _calls(function: Callable[[], object]) -> int:
    """Return the calls that fill a turn; the first ones compile and warm."""
    elapsed_s = alternate({"": function}, repeats=1, warm=2)[""][0].thread
    return max(1, round(TURN_S / elapsed_s))


def first_call_s(num_envs: int) -> float:
    """Return seconds of the first compiled decision, with the compile cache as it is."""
    params, draw = shipped_params(), torch.Generator().manual_seed(0)
    state, action = random_opening(params, num_envs, draw), random_orders(num_envs, draw)
    decide, packed = CompiledDecision(params, state), pack(state)
    started = time.perf_counter()
    decide(packed, action)
    return time.perf_counter() - started


def cold_call_s(num_envs: int) -> float:
    """Return the same in a new process with an empty compile cache."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, __file__, "--first-call", str(num_envs)],
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return float(done.stdout)


def verdict(value: float, required: float, *, at_least: bool) -> str:
    """Return a phrase that says whether a figure meets the requirement."""
    met = value >= required if at_least else value <= required
    return f"required {'>=' if at_least else '<='} {required:g}: {'met' if met else 'MISSED'}"


def show(num_envs: int, times_us: dict[str, float]) -> None:
    """Print one table for one size."""
    print(f"\n{num_envs} envs{'us per decision':>37}{'ns per env':>14}")
    for name, value_us in times_us.items():
        print(f"  {name:<26}{value_us:16.1f}{value_us * 1e3 / num_envs:14.1f}")
    ratio = times_us["kernel"] / times_us["compiled"]
    goal = verdict(ratio, REQUIRED_RATIO, at_least=True)
    print(f"  kernel / compiled{ratio:25.2f}   {goal}, aim {AIMED_RATIO:g}")


def growth(results: dict[int, dict[str, float]]) -> dict[int, float]:
    """Return the cost per env of the compiled simulator over its cost at the smallest size."""
    per_env = {size: times_us["compiled"] / size for size, times_us in sorted(results.items())}
    return {size: cost / next(iter(per_env.values())) for size, cost in per_env.items()}


def main() -> None:
    """Check, measure, print."""
    options_parser = parser(__doc__, repeats=15)
    options_parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1024, 4096, 16384], help="envs"
    )
    options_parser.add_argument(
        "--no-cold", action="store_true", help="skip the first call with an empty cache"
    )
    options_parser.add_argument("--json", type=Path, help="write the figures here too")
    options_parser.add_argument(
        "--first-call", type=int, metavar="ENVS", help="print only its seconds"
    )
    options = options_parser.parse_args()
    prepare_process(threads=1)
    if options.first_call:
        print(first_call_s(options.first_call))
        return
    params = shipped_params()
    kernel = Kernel(params)
    agreement = check_agreement(kernel, params)
    print("the kernel agrees with the eager simulator:")
    print("  " + ", ".join(f"{name} {value:g}" for name, value in agreement.items()))
    results = {size: measure(kernel, params, size, options.repeats) for size in options.sizes}
    for size, times_us in results.items():
        show(size, times_us)
    grown = growth(results)
    factors = ", ".join(f"{size}: {factor:.2f}" for size, factor in grown.items())
    grows = "grows" if max(grown.values()) > STEADY else "does not grow"
    print(f"\ncost per env of the compiled simulator {grows} with the envs: {factors}")
    cold_s = None if options.no_cold else cold_call_s(options.sizes[0])
    if cold_s is not None:
        goal = verdict(cold_s, REQUIRED_COLD_S, at_least=False)
        print(f"first compiled decision, empty cache: {cold_s:.1f} s   {goal}")
    if options.json:
        figures = {"agreement": agreement, "us": results, "growth": grown, "cold_s": cold_s}
        options.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
