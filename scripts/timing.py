"""Timing in turns, so that a busy machine slows all alike, and the options that benchmarks share."""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Seconds(NamedTuple):
    """The time that a call took."""

    clock: float
    processor: float  # of all threads together: the cost on a machine without an idle core
    thread: float  # of the calling thread: other processes on its core do not count


def alternate(
    functions: Mapping[str, Callable[[], object]], repeats: int, warm: int = 0
) -> dict[str, list[Seconds]]:
    """Call all functions in turns; return the times of each, without the first `warm` turns."""
    samples: dict[str, list[Seconds]] = {name: [] for name in functions}
    for turn in range(warm + repeats):
        for name, function in functions.items():
            began = _now()
            function()
            took = Seconds(*(after - before for before, after in zip(began, _now(), strict=True)))
            if turn >= warm:
                samples[name].append(took)
    return samples


def median(samples: Sequence[Seconds]) -> Seconds:
    """Return the median of each kind of time."""
    return Seconds(*(statistics.median(column) for column in zip(*samples, strict=True)))


def best(samples: Sequence[Seconds]) -> Seconds:
    """Return the shortest of each kind of time; a busy machine only ever adds."""
    return Seconds(*(min(column) for column in zip(*samples, strict=True)))


def parser(
    description: str | None, *, overrides: bool = False, repeats: int | None = None
) -> argparse.ArgumentParser:
    """Return a parser with the module's docstring as help, and the chosen options."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if repeats is not None:
        made.add_argument("--repeats", type=int, default=repeats, help=f"turns; default: {repeats}")
    if overrides:
        made.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as for navrl.train")
    return made


def _now() -> Seconds:
    return Seconds(time.perf_counter(), time.process_time(), time.thread_time())
