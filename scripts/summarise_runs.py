"""Summarise several runs of one experiment.

Prints final evaluations with the interval over seeds, the mean of a metric in each quarter of training, the
time until it stayed above a threshold, and the growth of memory.

    .venv/bin/python scripts/summarise_runs.py multirun/combat-ppo/<sweep>/* [--threshold 0.8]
"""

import json
import statistics
from pathlib import Path

from navrl.commands.bench_growth import WARM, mb_per_100_iterations, resident_mb
from navrl.loggers.jsonl import read_metrics
from navrl.run.intervals import mean_interval
from timing import parser


def main() -> None:
    """Print one row per run, then means with 95 % intervals over runs."""
    options_parser = parser(__doc__)
    options_parser.add_argument("runs", nargs="+", type=Path)
    options_parser.add_argument("--metric", default="episode/win")
    options_parser.add_argument("--threshold", type=float, default=0.8)
    options = options_parser.parse_args()
    columns: dict[str, list[float]] = {}
    for run in sorted(path for path in options.runs if (path / "metrics.jsonl").is_file()):
        row = {
            **reached(run, options.metric, options.threshold),
            **quarters(run, options.metric),
            **memory_growth(run),
            **finals(run),
        }
        print(run.name, " ".join(f"{name}={value:.4g}" for name, value in row.items()))
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    print()
    for name, values in columns.items():
        interval = mean_interval(values)
        print(f"{name:<28} {interval.mean:10.4f}   {interval.low:.4f} .. {interval.high:.4f}")


def reached(run: Path, metric: str, threshold: float) -> dict[str, float]:
    """Return seconds and frames after which the metric never fell below the threshold again."""
    seconds, since, frames = 0.0, 0.0, 0.0
    for row in read_metrics(run / "metrics.jsonl"):
        if "time/iteration" not in row:
            continue  # an evaluation that became known late
        if row.get(metric, threshold) < threshold:
            since, frames = seconds + row["time/iteration"], row["frames"]
        seconds += row["time/iteration"]
    return {"seconds_to_threshold": since, "frames_to_threshold": frames, "seconds": seconds}


def quarters(run: Path, metric: str) -> dict[str, float]:
    """Return means of the metric in the first, second, third and last quarter of the frames."""
    rows = [row for row in read_metrics(run / "metrics.jsonl") if metric in row]
    frames = max((row["frames"] for row in rows), default=0.0)
    means = {}
    for number in range(1, 5):
        low, high = (frames * edge / 4 for edge in (number - 1, number))
        values = [row[metric] for row in rows if low < row["frames"] <= high]
        if values:
            means[f"{metric} in quarter {number}"] = statistics.fmean(values)
    return means


def memory_growth(run: Path) -> dict[str, float]:
    """Return the growth of memory in MiB per 100 iterations."""
    resident = resident_mb(run)
    if max(resident, default=0) < 2 * WARM:
        return {}
    return {"mb_per_100_iterations": mb_per_100_iterations(resident)}


def finals(run: Path) -> dict[str, float]:
    """Return the final evaluation's win rates."""
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    return {
        name: value
        for name, value in summary.items()
        if name.startswith("eval/") and name.endswith("/win")
    }


if __name__ == "__main__":
    main()
