"""python -m peers.race REPEATS [KEY=VALUE ...]: see scripts/bench_peers.py, which runs this."""

import contextlib
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from omegaconf import DictConfig
from torch.optim.optimizer import register_optimizer_step_post_hook

from navrl.run.device import prepare_process
from peers.fights import Work, configuration, work_of
from timing import alternate

CONTESTANTS = (
    "navrl_ppo",
    "floor",
    "rsl_rl",
    "skrl",
    "stable_baselines3",
    "torchrl_stock",
    "jax_ppo",
    "jax_alone",
)
WARMING = 2  # turns


def main() -> None:
    """Build all, warm and check them, measure them in turns, print."""
    repeats, overrides = int(sys.argv[1]), sys.argv[2:]
    prepare_process(threads=1)  # with the same allocator for all
    cfg = configuration(overrides)
    work = work_of(cfg)
    with contextlib.redirect_stdout(sys.stderr):  # some print their networks
        warm = {name: warmed(name, cfg, work) for name in CONTESTANTS}
        samples = alternate({name: iterate for name, (iterate, _) in warm.items()}, repeats)
    rates = {
        name: work.frames / torch.tensor([seconds.processor for seconds in times])
        for name, times in samples.items()
    }
    sys.stdout.write(table(work, rates, {name: seconds for name, (_, seconds) in warm.items()}))


def warmed(name: str, cfg: DictConfig, work: Work) -> tuple[Callable[[], None], float]:
    """Return what runs an iteration, after warming and checking it, and the processor time until then."""
    began = time.process_time()
    torch.manual_seed(cfg.seed)
    contestant: Any = importlib.import_module(f"peers.{name}").Contestant(cfg, work)
    for _ in range(WARMING):
        made = gradient_steps(contestant)
        if made != work.gradient_steps:
            raise RuntimeError(f"{name} made {made} gradient steps, not {work.gradient_steps}")
    return contestant.iterate, time.process_time() - began


def gradient_steps(contestant: Any) -> int:
    """Return the number of gradient steps of an iteration: torch's, and those that another library counts."""
    made: list[object] = []
    hook = register_optimizer_step_post_hook(lambda *_: made.append(None))
    before = getattr(contestant, "gradient_steps", 0)
    contestant.iterate()
    hook.remove()
    return len(made) + getattr(contestant, "gradient_steps", 0) - before


def table(work: Work, rates: Mapping[str, torch.Tensor], warming_s: Mapping[str, float]) -> str:
    """Return frames per second of processor time, and their ratios to navrl and to the floor."""
    sizes = "-".join(map(str, work.hidden_sizes))
    lines = [
        f"{work.num_envs} envs x {work.steps} steps, {work.num_epochs} x {work.num_minibatches} minibatches, "
        f"{sizes}, frames per CPU second: median (lowest .. highest), median ratios of a turn\n"
        f"{'':<20}{'frames/s':>30}{'navrl / it':>14}{'it / floor':>14}{'warming, s':>14}\n"
    ]
    ours, floor = rates["navrl_ppo"], rates["floor"]
    for name, rate in rates.items():
        values = rate.tolist()
        shown = f"{statistics.median(values):,.0f} ({min(values):,.0f} .. {max(values):,.0f})"
        ratios = (statistics.median((a / b).tolist()) for a, b in ((ours, rate), (rate, floor)))
        lines.append(
            f"{name:<20}{shown:>30}"
            + "".join(f"{ratio:>14.2f}" for ratio in ratios)
            + f"{warming_s[name]:>14.1f}\n"
        )
    return "".join(lines)


if __name__ == "__main__":
    main()
