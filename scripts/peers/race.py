"""python -m peers.race REPEATS [KEY=VALUE ...]: see scripts/bench_peers.py, which runs this."""

import contextlib
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping

import torch
from omegaconf import DictConfig
from torch.optim.optimizer import register_optimizer_step_post_hook

from navrl.run.device import prepare_process
from peers.fights import Work, configuration, work_of

CONTESTANTS = ("navrl_ppo", "floor", "rsl_rl", "skrl", "stable_baselines3", "torchrl_stock")
WARMING = 2  # turns


def main() -> None:
    """Build all, warm and check them, measure them in turns, print."""
    repeats, overrides = int(sys.argv[1]), sys.argv[2:]
    prepare_process(threads=1)  # with the same allocator for all
    cfg = configuration(overrides)
    work = work_of(cfg)
    with contextlib.redirect_stdout(sys.stderr):  # where some tell of their networks
        iterate = {name: warmed(name, cfg, work) for name in CONTESTANTS}
        seconds = alternate(iterate, repeats)
    rates = {name: work.frames / each for name, each in seconds.items()}
    sys.stdout.write(table(work, rates))


def warmed(name: str, cfg: DictConfig, work: Work) -> Callable[[], None]:
    """What makes an iteration of this contestant, once it has made some of the right work."""
    torch.manual_seed(cfg.seed)
    iterate: Callable[[], None]
    iterate = importlib.import_module(f"peers.{name}").Contestant(cfg, work).iterate
    for _ in range(WARMING):
        made = gradient_steps(iterate)
        if made != work.gradient_steps:
            raise RuntimeError(f"{name} made {made} gradient steps, not {work.gradient_steps}")
    return iterate


def gradient_steps(iterate: Callable[[], None]) -> int:
    """How many it makes."""
    made: list[object] = []
    hook = register_optimizer_step_post_hook(lambda *_: made.append(None))
    iterate()
    hook.remove()
    return len(made)


def alternate(iterate: Mapping[str, Callable[[], None]], repeats: int) -> dict[str, torch.Tensor]:
    """Seconds of processor time of every repeat."""
    seconds: dict[str, list[float]] = {name: [] for name in iterate}
    for _ in range(repeats):
        for name, once in iterate.items():
            started = time.process_time()
            once()
            seconds[name].append(time.process_time() - started)
    return {name: torch.tensor(values) for name, values in seconds.items()}


def table(work: Work, rates: Mapping[str, torch.Tensor]) -> str:
    """Frames per second of processor time, and how many times as fast as each navrl and the floor are."""
    sizes = "-".join(map(str, work.hidden_sizes))
    lines = [
        f"{work.num_envs} envs x {work.steps} steps, {work.num_epochs} x {work.num_minibatches} minibatches, "
        f"{sizes}, frames per CPU second: median (lowest .. highest), median ratios of a turn\n"
        f"{'':<20}{'frames/s':>30}{'navrl / it':>14}{'it / floor':>14}\n"
    ]
    ours, floor = rates["navrl_ppo"], rates["floor"]
    for name, rate in rates.items():
        values = rate.tolist()
        told = f"{statistics.median(values):,.0f} ({min(values):,.0f} .. {max(values):,.0f})"
        ratios = (statistics.median((a / b).tolist()) for a, b in ((ours, rate), (rate, floor)))
        lines.append(
            f"{name:<20}{told:>30}" + "".join(f"{ratio:>14.2f}" for ratio in ratios) + "\n"
        )
    return "".join(lines)


if __name__ == "__main__":
    main()
