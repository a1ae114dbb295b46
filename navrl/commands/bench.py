"""`navrl bench`: time the sections of a training and their floors, and measure other numbers of envs.

A floor is the same arithmetic without the libraries around it. Sections and floors run in turns, so that a
busy machine slows all of them alike.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig
from tensordict import TensorDictBase

from navrl import __version__
from navrl.agents.hmasd.agent import HMASD
from navrl.agents.ppo.agent import PPO
from navrl.commands.bench_floors import Learning, SkillLearning
from navrl.commands.bench_growth import add_option, bench_growth
from navrl.commands.bench_ranks import add_options, bench_ranks
from navrl.config.checks import require_number, require_whole, require_writable
from navrl.config.command import run_plain
from navrl.config.command_line import command_parser, take_words
from navrl.config.compose import compose
from navrl.envs.core.env import BatchedEnv
from navrl.run.build import build_agent, build_collector, build_env
from navrl.run.device import enough_memory, prepare_process
from navrl.run.memory import available_mb, memory, reset_peak
from navrl.run.timers import Sections, Spread
from navrl.storage.files import to_json, write_atomically

_MEBIBYTES = 1024.0  # in a gibibyte
_EXAMPLES = """  navrl bench                                               air combat with agent=ppo
  navrl bench env=navigation agent=ppo_navigation --memory-gb 8
  navrl bench agent.network.hidden_sizes=[64,64] --sizes 1024,16384 --json bench.json
  navrl bench --ranks 1,2 --repeats 3                       one run by one and by two processes
  navrl bench --growth 300                                  does a training need more and more memory?"""


class Size(NamedTuple):
    """The rates and the memory of training with a number of envs."""

    num_envs: int
    collect_fps: float
    update_fps: float
    fps: float
    peak_mb: float


class Advice(NamedTuple):
    """The number of envs to take, and the number that fits."""

    budget_mb: float
    fastest: int | None  # of those measured that fit
    fitting: int | None  # by a line through the measurements; None if memory does not grow


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl bench`."""
    return run_plain(_parser(), bench, arguments)


def bench(options: argparse.Namespace) -> None:
    """Print the table of sections, then a row for every number of envs."""
    cfg = _checked(options)
    if options.ranks or options.growth is not None:
        (bench_ranks if options.ranks else bench_growth)(options)
        return
    sys.stdout.write(
        f"{cfg.env.name} with {cfg.agent.name}: {cfg.num_envs} envs x {cfg.rollout_steps} steps, "
        f"compile={cfg.compile}; compilation comes first\n"
    )
    sys.stdout.flush()
    progress = Progress((3 * cfg.num_envs + sum(options.sizes)) * (options.repeats + 1))
    with enough_memory("num_envs", cfg.num_envs):
        training = Training(cfg)
        found = measure(training, options.repeats, lambda: progress.advance(3 * cfg.num_envs))
        training.close()
    device, frames = training.device, training.frames
    machine = {
        "device": str(device),
        "threads": torch.get_num_threads(),
        "precision": training.agent.precision,
    }
    del training  # otherwise its memory would count for all sizes
    progress.clear()
    named = ", ".join(f"{name} {value}" for name, value in machine.items())
    sys.stdout.write(f"{named}\n{table(found, frames)}")
    given = options.memory_gb
    budget_mb = available_mb(device) if given is None else given * _MEBIBYTES
    sizes = _sizes(options, progress)
    advised = advice(sizes, budget_mb)
    sys.stdout.write(_sentence(advised, sizes))
    if options.json is not None:
        record = {
            **{"version": __version__, "overrides": options.overrides, **machine},
            "sections": {name.strip(): timing._asdict() for name, timing in found.items()},
            "num_envs": [size._asdict() for size in sizes],
            "advice": advised._asdict(),
        }
        write_atomically(options.json, to_json(record, indent=2) + "\n")
        sys.stdout.write(f"wrote {options.json}\n")


def _checked(options: argparse.Namespace) -> Any:
    """Return the configuration, or raise ConfigError about a wrong option."""
    take_words(options, {})
    require_whole("--repeats", options.repeats, least=1)
    if options.memory_gb is not None:
        require_number("--memory-gb", options.memory_gb, above=0.0)
    require_writable(options.json, "--json")
    cfg = compose("train", options.overrides)
    for name in ("num_envs", "rollout_steps"):
        require_whole(name, cfg[name], 1)
    return cfg


def _sizes(options: argparse.Namespace, progress: Progress) -> list[Size]:
    """Measure every number of envs, and print a row for each."""
    sizes = []
    if options.sizes:
        sys.stdout.write(_row("num_envs", "collect", "update", "frames/s", "us/frame", "MB"))
    for num_envs in options.sizes:
        sizes.append(_size(options, num_envs, progress))
        progress.clear()
        sys.stdout.write(_row(*_cells(sizes[-1])))
        sys.stdout.flush()
    return sizes


def _size(options: argparse.Namespace, num_envs: int, progress: Progress) -> Size:
    """Measure one training of this size: rates, and peak memory of its iterations after the first."""
    cfg = compose("train", [*options.overrides, f"num_envs={num_envs}"])
    with enough_memory("--sizes", num_envs):
        training = Training(cfg)
        reset_peak(training.device)
        run = {"collect": training.collect, "update": training.update}
        spreads = alternate(
            run, options.repeats, training.device, lambda: progress.advance(num_envs)
        )
        training.close()
    collect_s, update_s = (spreads[name].p50 for name in run)
    found = memory(training.device)
    peak_mb = found.get("memory/cuda_peak_mb", found["memory/rss_peak_mb"])
    frames = training.frames
    both_s = collect_s + update_s
    return Size(num_envs, frames / collect_s, frames / update_s, frames / both_s, peak_mb)


def advice(sizes: Sequence[Size], budget_mb: float) -> Advice:
    """Return the fastest measured number of envs within the memory, and the number that would fit."""
    inside = [size for size in sizes if size.peak_mb <= budget_mb]
    fastest = max(inside, key=lambda size: size.fps).num_envs if inside else None
    fitting = None
    if len({size.num_envs for size in sizes}) > 1:
        line = statistics.linear_regression(
            [size.num_envs for size in sizes], [size.peak_mb for size in sizes]
        )
        if line.slope > 0.0:
            fitting = max(0, int((budget_mb - line.intercept) / line.slope))
    return Advice(budget_mb, fastest, fitting)


class Progress:
    """A line on stderr of a terminal: the share that is done, and the remaining time."""

    def __init__(self, total: float) -> None:
        self._total, self._done, self._start_s = total, 0.0, time.monotonic()
        self._shown = sys.stderr.isatty()

    def advance(self, work: float) -> None:
        """Add finished work, and print the line."""
        self._done += work
        left_s = (time.monotonic() - self._start_s) * (self._total - self._done) / self._done
        if self._shown:
            share = 100.0 * self._done / self._total
            sys.stderr.write(f"\r{share:3.0f} % measured, about {left_s:.0f} s left \x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        """Erase the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def table(found: dict[str, Timing], frames: int) -> str:
    """Return a row for every section: time, share of an iteration, floor; frames/s of whole sections."""
    lines = [_row("ms, median and 95 %", "p50", "p95", "share", "floor", "x floor", "frames/s")]
    whole_ms = found["iteration"].p50_ms
    for name, timing in found.items():
        floor = ratio = rate = ""
        if timing.floor_ms is not None:
            floor, ratio = f"{timing.floor_ms:.1f}", f"{timing.p50_ms / timing.floor_ms:.2f}"
        if not name.startswith(" "):
            rate = f"{frames / timing.p50_ms * 1000.0:,.0f}"
        share = f"{100.0 * timing.p50_ms / whole_ms:.0f} %"
        lines.append(
            _row(name, f"{timing.p50_ms:.1f}", f"{timing.p95_ms:.1f}", share, floor, ratio, rate)
        )
    return "".join(lines)


def _row(name: str, *cells: str) -> str:
    return (f"{name:<22}" + "".join(f"{cell:>10}" for cell in cells)).rstrip() + "\n"


def _cells(size: Size) -> tuple[str, ...]:
    rates = (f"{rate:,.0f}" for rate in (size.collect_fps, size.update_fps, size.fps))
    return (f"{size.num_envs}", *rates, f"{1e6 / size.fps:.1f}", f"{size.peak_mb:,.0f}")


def _sentence(advised: Advice, sizes: Sequence[Size]) -> str:
    """Return the advice in words."""
    if not sizes:
        return ""
    budget = f"{advised.budget_mb / _MEBIBYTES:.1f} GB"
    if advised.fastest is None:
        return f"none of these fits into {budget}; measure fewer envs with --sizes\n"
    words = f"num_envs={advised.fastest} is the fastest of these that fits into {budget}"
    if advised.fitting is not None:
        words += f"; about {advised.fitting:,} would fit"
    return f"{words}\n"


def _numbers(text: str) -> list[int]:
    """Return '256,1024' as numbers in ascending order, so that the last one has the highest peak memory."""
    words = [word for word in text.split(",") if word]
    if not all(word.isdecimal() and int(word) for word in words):
        raise argparse.ArgumentTypeError(f"{text}; expected whole numbers of 1 or more")
    return sorted({int(word) for word in words})


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "bench",
        "Time the sections of a training iteration, compare each with the same arithmetic without the "
        "libraries around it, and measure other numbers of envs.",
        _EXAMPLES,
        overrides="options of navrl train",
    )
    parser.add_argument("--repeats", type=int, default=7, help="turns; default: %(default)s")
    parser.add_argument(
        "--sizes",
        type=_numbers,
        default="256,512,1024,2048,4096",
        metavar="N,N,...",
        help="numbers of envs to measure, '' for none; default: %(default)s",
    )
    parser.add_argument("--memory-gb", type=float, help="of the training; default: the free memory")
    add_options(parser, _numbers)
    add_option(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all numbers")
    return parser


# ---- sections and floors ---------------------------------------------------------------------------

_ENDLESS = 1 << 60  # iterations and frames
_FLOOR = "floor of "


class Timing(NamedTuple):
    """The times of one section in milliseconds; the floor is None if none is implemented."""

    p50_ms: float
    p95_ms: float
    floor_ms: float | None


class Training:
    """Env, agent and collector of a training, without curriculum, checkpoints and logs."""

    def __init__(self, cfg: DictConfig) -> None:
        prepare_process(cfg.threads)
        torch.manual_seed(cfg.seed)
        self.steps, self.frames = cfg.rollout_steps, cfg.num_envs * cfg.rollout_steps
        self.env: Any = build_env(cfg, num_envs=cfg.num_envs, seed=cfg.seed, from_checkpoint=False)
        self.device = self.env.device
        self.agent: Any = build_agent(cfg, self.env, num_iterations=_ENDLESS, from_checkpoint=False)
        self.agent.check_rollout_size(cfg.num_envs, cfg.rollout_steps)
        self._collector = build_collector(cfg, self.env, self.agent, total_frames=_ENDLESS)
        self._rollouts = iter(self._collector)
        self.collect()
        self.update()  # now everything is compiled

    def collect(self) -> None:
        """Collect the next rollout."""
        self.rollout: TensorDictBase = next(self._rollouts)
        if isinstance(self.agent, HMASD):
            # Its coordinator learns nothing from decisions that all had the same reward.
            self.rollout["next", "reward"][0] += 1.0
        self._frame = self.rollout[:, 0].exclude("next")

    def update(self) -> None:
        """Learn from the rollout."""
        self.agent.update(self.rollout)

    def step(self) -> None:
        """Step all envs once, as a collector does."""
        self.env.step_and_maybe_reset(self._frame.copy())

    def step_bare(self) -> None:
        """Step all envs once, without TensorDict."""
        env = self.env
        env._packed, _, _ = env.decide(self._frame.get(env.action_key))

    @torch.no_grad()
    def act(self) -> None:
        """Compute one decision of the policy."""
        self.agent.policy(self._frame.copy())

    def close(self) -> None:
        """Close the collector."""
        self._collector.shutdown()


def measure(training: Training, repeats: int, after_turn: Callable[[], None]) -> dict[str, Timing]:
    """Time every section and its parts, which begin with two spaces; call after_turn() after each turn."""
    times = training.steps
    run: dict[str, Callable[[], object]] = {
        "collect": training.collect,
        "update": training.update,
        "  simulator": partial(_repeat, times, training.step),
        "  policy": partial(_repeat, times, training.act),
    }
    if isinstance(training.env, BatchedEnv):
        run[f"{_FLOOR}  simulator"] = partial(_repeat, times, training.step_bare)
    if isinstance(training.agent, PPO):
        learning = Learning(training.agent, training.rollout)
        run[f"{_FLOOR}  policy"] = partial(_repeat, times, learning.act_bare)
        run |= {
            "  values, advantages": learning.values,
            "  gradient steps": learning.steps,
            f"{_FLOOR}  values, advantages": learning.values_bare,
            f"{_FLOOR}  gradient steps": learning.steps_bare,
        }
    if isinstance(training.agent, HMASD):
        skills = SkillLearning(training.agent, training.rollout)
        run[f"{_FLOOR}  policy"] = partial(_repeat, times, skills.act_bare)
        run[f"{_FLOOR}update"] = skills.steps_bare
    return timings(alternate(run, repeats, training.device, after_turn))


def timings(spreads: Mapping[str, Spread]) -> dict[str, Timing]:
    """Return the times in the order of the table, with floors of whole sections, and the iteration."""
    floors = {
        name.removeprefix(_FLOOR): spread.p50 * 1000.0
        for name, spread in spreads.items()
        if name.startswith(_FLOOR)
    }
    parts = {
        "collect": ("  simulator", "  policy"),
        "update": ("  values, advantages", "  gradient steps"),
        "iteration": ("collect", "update"),
    }
    for whole, names in parts.items():
        if all(name in floors for name in names):
            floors[whole] = sum(floors[name] for name in names)
    both = Spread(*(sum(spreads[name][i] for name in parts["iteration"]) for i in (0, 1)))
    order = ("collect", *parts["collect"], "update", *parts["update"])
    measured = {name: spreads[name] for name in order if name in spreads} | {"iteration": both}
    return {
        name: Timing(spread.p50 * 1000.0, spread.p95 * 1000.0, floors.get(name))
        for name, spread in measured.items()
    }


def alternate(
    functions: Mapping[str, Callable[[], object]],
    repeats: int,
    device: torch.device | str = "cpu",
    after_turn: Callable[[], None] = lambda: None,
) -> dict[str, Spread]:
    """Return the seconds of all functions, run in turns; the first turn warms up and does not count."""
    timer = Sections(device, window=repeats)  # drops the first turn
    for _ in range(repeats + 1):
        for name, function in functions.items():
            with timer.section(name):
                function()
        timer.read()
        after_turn()
    return timer.spread()


def _repeat(times: int, function: Callable[[], object]) -> None:
    for _ in range(times):
        function()


if __name__ == "__main__":
    sys.exit(main())
