"""`navrl runs compare`: groups of runs that are equal but for their seeds, side by side."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from navrl.config.checks import ConfigError, printable
from navrl.config.command_line import columns, show
from navrl.config.quoting import shown_path
from navrl.loggers.format import count
from navrl.run.group_statistics import (
    Scores,
    bootstrap,
    difference_of_means,
    improvement,
    interquartile_mean,
)
from navrl.run.intervals import Interval, mean_interval
from navrl.run.origin import differences, options_of
from navrl.run.run_filters import as_text, fact, require_known, select_runs
from navrl.run.stored_runs import StoredRun, final_rates

_AGAINST = "\0"  # in place of "--", which argparse would drop; no path holds it
_MOST_GROUPS = 26
_MOST_KEYS = 40  # lines of differences
_LONGEST = 40  # characters of a value
_LARGEST = 1e150  # whose square is still a number
_FEW = 5  # runs; an interval between the lowest and the highest of fewer has less than 95 %


class _Group(NamedTuple):
    """Runs with the same options, and what they scored."""

    name: str  # a letter
    runs: list[StoredRun]
    scores: Scores  # [runs, metrics]

    @property
    def means(self) -> list[float]:
        """Return one number for each run."""
        found: list[float] = self.scores.mean(axis=1).tolist()
        return found


def separated(words: Sequence[str]) -> list[str]:
    """Return the words with every -- as a word that the parser keeps."""
    return [_AGAINST if word == "--" else word for word in words]


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `navrl runs compare`."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="RUN|FOLDER|FILTER",
        help="runs of a group, with -- before the next group; without -- runs of equal options are a group",
    )
    parser.add_argument("--group", metavar="KEY", help="make a group of each value of this option")
    parser.add_argument(
        "--metric",
        metavar="NAME,...",
        help="default: the final rates against every opponent; the last objective if no run has any",
    )
    parser.add_argument(
        "--draw",
        choices=("runs", "metrics"),
        default="runs",
        help="what a bootstrap draws: whole runs (default), or runs for each metric apart, as rliable does",
    )


def compare(options: argparse.Namespace) -> int:
    """Print scores by seed, statistics of each group, comparisons and differences of options."""
    found = _grouped(options.words, options.group)
    metrics = _metrics(found, options.metric)
    groups = _scored(found, metrics)
    apart = options.draw == "metrics"
    show(
        f"{_runs_table(groups, metrics)}\n{_statistics(groups, apart)}\n{_comparisons(groups, apart)}"
    )
    if min(len(group.runs) for group in groups) < _FEW:
        show(
            f"with fewer than {_FEW} runs the intervals of IQM and probability are too narrow; "
            "those of the means are not\n"
        )
    show(f"\n{_differences(groups)}")
    return 0


# ---- groups ----


def _grouped(words: Sequence[str], key: str | None) -> list[list[StoredRun]]:
    """Return the runs of each group."""
    if _AGAINST in words:
        if key is not None:
            raise ConfigError(
                "--group and -- both make groups; expected one of them; leave one out"
            )
        found = [select_runs(part) if part else [] for part in _parts(words)]
        _require_apart(found)
    else:
        found = _by_options(select_runs(words), key)
    if not all(found):
        raise ConfigError(
            "a group holds no run; expected one or more; change its folders and filters"
        )
    if not 2 <= len(found) <= _MOST_GROUPS:
        raise ConfigError(
            f"{len(found)} groups of runs were found; expected 2 to {_MOST_GROUPS}; name others, part "
            "them by -- or choose them by --group KEY or filters"
        )
    return found


def _parts(words: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == _AGAINST:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _require_apart(groups: Sequence[Sequence[StoredRun]]) -> None:
    seen = set()
    for runs in groups:
        for path in {run.path.resolve() for run in runs}:
            if path in seen:
                raise ConfigError(
                    f"{path} is in two groups; expected it in one; leave it out of the other"
                )
            seen.add(path)


def _by_options(runs: Sequence[StoredRun], key: str | None) -> list[list[StoredRun]]:
    """Return the runs with the same value of a key, or of all options but those that change no result."""
    if key is not None:
        require_known(runs, [key])
    groups: dict[object, list[StoredRun]] = {}
    for run in runs:
        same: object = as_text(fact(run, key)) if key else (*sorted(options_of(run).items()),)
        groups.setdefault(same, []).append(run)
    return list(groups.values())


# ---- scores ----


def _metrics(groups: Sequence[Sequence[StoredRun]], named: str | None) -> list[str]:
    """Return the metrics to compare: those named, or the final rates that all runs with some have.

    Without any, return the last objective that every group has, and say so.
    """
    if named is not None:
        metrics = list(dict.fromkeys(filter(None, named.split(","))))
        require_known([run for runs in groups for run in runs], metrics)
        return metrics
    final = [rates for runs in groups for run in runs if (rates := {*final_rates(run)})]
    found = sorted(set.intersection(*final)) if final else _last_objective(groups)
    if not found:
        raise ConfigError(
            "the groups share no objective; expected a metric that all have; add --metric NAME"
        )
    return found


def _last_objective(groups: Sequence[Sequence[StoredRun]]) -> list[str]:
    """Return the objective of the last evaluation, or else of training, none if a group lacks both."""
    objectives = {run.found.objective for runs in groups for run in runs}
    if len(objectives) != 1:
        return []
    (name,) = objectives
    for source, metric in (("the last evaluation", "eval"), ("training episodes", "episode")):
        kind = [f"{metric}/{name}"]
        if all(any(_score(run, kind) for run in runs) for runs in groups):
            show(f"no run has final rates: the scores are of {source}\n")
            return kind
    return []


def _score(run: StoredRun, metrics: Sequence[str]) -> list[float] | None:
    """Return the values of the metrics, None if one is no number."""
    values = [_number(fact(run, name)) for name in metrics]
    return None if any(math.isnan(value) for value in values) else values


def _number(found: object) -> float:
    known = isinstance(found, int | float) and abs(found) <= _LARGEST
    return float(found) if known else math.nan  # type: ignore[arg-type]


def _scored(found: Sequence[Sequence[StoredRun]], metrics: Sequence[str]) -> list[_Group]:
    """Return the groups without the runs that have no value; name those."""
    groups: list[_Group] = []
    for runs in found:
        scores = [(run, _score(run, metrics)) for run in runs]
        for run, values in scores:
            if values is None:
                lacking = f"it has no {' and '.join(metrics)}"
                show(f"left out {shown_path(run.path)} ({run.state}): {lacking}\n")
        kept = [(run, values) for run, values in scores if values is not None]
        if kept:
            kept.sort(key=lambda pair: (pair[0].found.seed, str(pair[0].path)))
            name = chr(ord("A") + len(groups))
            table = np.array([values for _, values in kept])
            groups.append(_Group(name, [run for run, _ in kept], table))
    if len(groups) < 2:
        raise ConfigError(
            f"{len(groups)} of {len(found)} groups have runs with {' and '.join(metrics)}; expected 2 or "
            "more; train those left out to their end, or choose another --metric"
        )
    return groups


# ---- tables ----


def _runs_table(groups: Sequence[_Group], metrics: Sequence[str]) -> str:
    rows = [("group", "seed", *map(printable, metrics), "frames", "state", "run")]
    for group in groups:
        for run, values in zip(group.runs, group.scores.tolist(), strict=True):
            cells = (f"{value:.4g}" for value in values)
            path = printable(shown_path(run.path))
            facts = (count(run.frames), printable(run.state), path)
            rows.append((group.name, str(run.found.seed), *cells, *facts))
    return columns(rows)


def _statistics(groups: Sequence[_Group], apart: bool) -> str:
    rows = [("group", "runs", "mean (95 %)", "IQM (95 %)")]
    for group in groups:
        middle = bootstrap(interquartile_mean, group.scores, apart=apart)
        mean = mean_interval(group.means)
        rows.append((group.name, str(len(group.runs)), _text(mean), _text(middle)))
    return columns(rows)


def _comparisons(groups: Sequence[_Group], apart: bool) -> str:
    """Return how the first group differs from each of the others."""
    first = groups[0]
    rows = [("groups", "difference of means (95 %)", "probability that the first is above (95 %)")]
    for other in groups[1:]:
        difference = difference_of_means(first.means, other.means)
        above = improvement(first.scores, other.scores, apart=apart)
        rows.append((f"{first.name} - {other.name}", _text(difference), _text(above)))
    return columns(rows)


def _text(found: Interval) -> str:
    """Return an estimate with its interval, which one run does not have."""
    if not math.isfinite(found.low):
        return f"{found.mean:.4g}"
    return f"{found.mean:.4g} ({found.low:.4g}..{found.high:.4g})"


def _differences(groups: Sequence[_Group]) -> str:
    """Return the options in which the groups differ, with the values of each."""
    rows = differences([group.runs for group in groups])
    if not rows:
        return "the groups have the same options\n"
    more = f"and {len(rows) - _MOST_KEYS} others\n" if len(rows) > _MOST_KEYS else ""
    head = ("option", *(group.name for group in groups))
    lines = [(name, *(cell[:_LONGEST] for cell in cells)) for name, cells in rows[:_MOST_KEYS]]
    return columns([head, *lines]) + more
