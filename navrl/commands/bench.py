"""navrl bench: where the time of a training goes, how far from its floor, and how many envs to take."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from navrl import __version__
from navrl.commands.bench_floor import Timing, Training, alternate, measure
from navrl.config.checks import ConfigError
from navrl.config.command import run_plain
from navrl.config.compose import compose
from navrl.run.options import check_whole, check_writable, enough_memory
from navrl.run.timers import available_mb, memory, reset_peak
from navrl.storage.files import to_json, write_atomically

_MEBIBYTES = 1024.0  # in a gibibyte
_EXAMPLES = """examples:
  navrl bench                                               air combat with agent=ppo
  navrl bench env=navigation agent=ppo_navigation --memory-gb 8
  navrl bench agent.hidden_sizes=[64,64] agent.precision=fp32 --num-envs 1024,16384 --json bench.json"""


class Size(NamedTuple):
    """A number of envs, and what training with it costs."""

    num_envs: int
    collect_fps: float
    update_fps: float
    fps: float
    peak_mb: float


class Advice(NamedTuple):
    """Which number of envs to take, and how many fit."""

    budget_mb: float
    fastest: int | None  # of those measured that fit
    fitting: int | None  # by the line through what was measured; None where memory does not grow


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of `navrl bench`."""
    return run_plain(_parser(), bench, arguments)


def bench(options: argparse.Namespace) -> None:
    """The command."""
    cfg = _checked(options)
    sys.stdout.write(
        f"{cfg.env.name} with {cfg.agent.name}: {cfg.num_envs} envs x {cfg.rollout_steps} steps, "
        f"compile={cfg.compile}; what compiles does so first\n"
    )
    sys.stdout.flush()
    work = 3 * cfg.num_envs + sum(options.num_envs)
    progress = Progress(work * (options.repeats + 1))
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
    del training  # else its memory would count for all sizes
    progress.clear()
    named = ", ".join(f"{name} {value}" for name, value in machine.items())
    sys.stdout.write(f"{named}\n{table(found, frames)}")
    budget_mb = available_mb(device)
    if options.memory_gb is not None:
        budget_mb = options.memory_gb * _MEBIBYTES
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
    """The configuration, once every flag makes sense."""
    if options.repeats < 1:
        raise ConfigError(f"--repeats {options.repeats}; expected 1 or more; change --repeats")
    if options.memory_gb is not None and not options.memory_gb > 0.0:
        raise ConfigError(
            f"--memory-gb {options.memory_gb}; expected more than 0; change --memory-gb"
        )
    if options.json is not None:
        check_writable(options.json, "--json")
    cfg = compose("train", options.overrides)
    check_whole(cfg, "num_envs", "rollout_steps", least=1)
    return cfg


def _sizes(options: argparse.Namespace, progress: Progress) -> list[Size]:
    """What every number of envs costs, and a line for each on the way."""
    sizes = []
    if options.num_envs:
        sys.stdout.write(_row("num_envs", "collect", "update", "frames/s", "us/frame", "MB"))
    for num_envs in options.num_envs:
        sizes.append(_size(options, num_envs, progress))
        progress.clear()
        sys.stdout.write(_row(*_cells(sizes[-1])))
        sys.stdout.flush()
    return sizes


def _size(options: argparse.Namespace, num_envs: int, progress: Progress) -> Size:
    """One training of this size: rates, and the most memory of its iterations after the first."""
    cfg = compose("train", [*options.overrides, f"num_envs={num_envs}"])
    with enough_memory("--num-envs", num_envs):
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
    """What fits into so much memory: the fastest measured, and the most by a line through all measured."""
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
    """How much is done, and about how long the rest takes, on stderr of a terminal."""

    def __init__(self, total: float) -> None:
        self._total, self._done, self._began = total, 0.0, time.monotonic()
        self._shown = sys.stderr.isatty()

    def advance(self, work: float) -> None:
        """So much more of the total is done."""
        self._done += work
        left_s = (time.monotonic() - self._began) * (self._total - self._done) / self._done
        if self._shown:
            share = 100.0 * self._done / self._total
            sys.stderr.write(f"\r{share:3.0f} % measured, about {left_s:.0f} s left \x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        """Leave the line to somebody else."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def table(found: dict[str, Timing], frames: int) -> str:
    """A line for every section: time, share of an iteration, floor; and frames/s of the wholes."""
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
    """The advice in words."""
    if not sizes:
        return ""
    budget = f"{advised.budget_mb / _MEBIBYTES:.1f} GB"
    if advised.fastest is None:
        return f"none of these fits into {budget}; measure fewer envs with --num-envs\n"
    words = f"num_envs={advised.fastest} is the fastest of these that fits into {budget}"
    if advised.fitting is not None:
        words += f"; about {advised.fitting:,} would fit"
    return f"{words}\n"


def _numbers(text: str) -> list[int]:
    """'256,1024' as numbers, in ascending order, so that the most memory so far is that of the last."""
    numbers = sorted({int(word) for word in text.split(",") if word})
    if any(number < 1 for number in numbers):
        raise argparse.ArgumentTypeError(f"{text}; expected whole numbers of 1 or more")
    return numbers


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="navrl bench",
        description="Where the time of a training iteration goes, how many times as long every section takes "
        "as the same arithmetic with no library around it, and what other numbers of envs cost.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="options, as for navrl train"
    )
    parser.add_argument(
        "--repeats", type=int, default=7, help="of which the median counts; default: %(default)s"
    )
    parser.add_argument(
        "--num-envs",
        type=_numbers,
        default="256,512,1024,2048,4096",
        metavar="N,N,...",
        help="numbers of envs to measure, '' for none; default: %(default)s",
    )
    parser.add_argument(
        "--memory-gb", type=float, help="what training may take; default: what is free here"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all of it there too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
