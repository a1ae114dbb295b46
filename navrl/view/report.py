"""The data of the report page: a badge, tables, and sections of charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from navrl.view.curves import (
    LARGEST,
    YOUNG,
    Band,
    Numbers,
    axis,
    band,
    column,
    drawable,
    metrics_of,
)
from navrl.view.report_charts import (
    BOUNDS,
    SHARE,
    Charts,
    Group,
    Run,
    constant_text,
    distinct,
    unit_of,
)

_SHORTEST_S = 1e-3  # of a run whose speed is known
_LEARNING = (
    "Held-out episodes with the most probable actions where the runs were evaluated; paler, training "
    "episodes by the iteration in which they began. A band is a 95 % interval: of the mean over seeds "
    "(Student's t), whose runs are thin lines, or of a single run's share of episodes (Wilson)."
)
_REWARD = (
    "Contribution of each term to the return of an episode, and the reward of agents per step."
)
_SKILLS = (
    "Share of each skill, changes of choice, and the information between skills and observations."
)
_ROLLOUTS = (
    "Log-probs recomputed before learning, and decisions by why they ended, of one policy version."
)
_LESSONS = "Stage, what passes it, and the rating (Elo) and scores against what the league plays."
_PERFORMANCE = "Speed, the parts of the time of an iteration, and memory."


def report(runs: Sequence[Run], *, title: str, subtitle: str) -> dict[str, Any]:
    """Return the data that the scripts of the page read."""
    labels = list(dict.fromkeys(run.label for run in runs))
    groups = [
        Group(label, tone, [run for run in runs if run.label == label])
        for tone, label in enumerate(labels)
    ]
    on = axis([run.rows for run in runs])
    charts = Charts(groups, on)
    names = list(dict.fromkeys(key for run in runs for key in metrics_of(run.rows)))
    names = [name for name in names if "/" in name and not name.endswith(BOUNDS)]
    seen: dict[Any, dict[str, Any]] = {}
    kept = {group.runs[0].objective for group in groups}
    sections = [
        _section(title, text, found, seen, kept)
        for title, text, found in (
            ("Learning", f"{_LEARNING}{_opponents(groups)}", charts.learning(names)),
            ("Reward", _REWARD, charts.rewards(names)),
            ("Curriculum and league", _LESSONS, charts.lessons(names)),
            ("Skills", _SKILLS, charts.skills(names)),
            ("Rollouts", _ROLLOUTS, charts.rollouts(names)),
            ("Performance", _PERFORMANCE, charts.performance(names)),
            ("Updates", "", charts.updates(names)),
            ("Everything else", "", charts.rest(names)),
        )
    ]
    finals = _finals(groups)
    return {
        "title": title,
        "subtitle": subtitle,
        "badge": _badge(groups, finals),
        "frames": on.ends,
        "groups": [
            {"label": group.label, "tone": group.tone, "runs": len(group.runs)} for group in groups
        ],
        "table": [_row(run, group) for group in groups for run in group.runs],
        "finals": finals,
        "sections": [section for section in sections if section["charts"] or section["constants"]],
    }


def _section(
    title: str,
    text: str,
    charts: Iterable[dict[str, Any]],
    seen: dict[Any, dict[str, Any]],
    kept: set[str],
) -> dict[str, Any]:
    """Return a section; what never changes becomes text, unless it is among the kept."""
    changing, constants = [], []
    for chart in charts:
        constant = None if chart["title"] in kept else constant_text(chart)
        if constant is None:
            changing.append(chart)
        else:
            constants.append(constant)
    return {
        **{"title": title, "text": text, "folded": not text},
        **{"charts": list(distinct(changing, seen)), "constants": constants},
    }


def _opponents(groups: Sequence[Group]) -> str:
    """Return a sentence about the opponents of training, or nothing in worlds without them."""
    found = {group.label: group.runs[0].opponent for group in groups if group.runs[0].opponent}
    if len(set(found.values())) > 1:
        listed = "; ".join(f"{label}: {opponent}" for label, opponent in found.items())
        return f" Opponents: {listed}."
    return "".join(f" Opponent: {opponent}." for opponent in {*found.values()})


def _badge(groups: Sequence[Group], finals: Sequence[dict[str, Any]]) -> str | None:
    """Return the result of a single group, and which episodes it is of."""
    if len(groups) != 1:
        return None
    (group,) = groups
    objective = group.runs[0].objective
    final = [each for each in finals if each["what"] == objective]
    if len(final) == 1:
        (found,) = final
        return f"{objective} {_interval_text(found)}, {_episodes(group)} {_where(group, found['where'])}"
    if final:
        means = [each["mean"] for each in final if each["mean"] is not None]
        names = ", ".join(each["where"] for each in final)
        return f"{objective} {fmean(means):.3g}, mean over {names}" if means else None
    return _last(group, f"eval/{objective}") or _last(group, f"episode/{objective}")


def _row(run: Run, group: Group) -> dict[str, Any]:
    """Return a row of the table of runs."""
    seconds = column(run.rows, "time/iteration").tolist()
    seconds = [duration for duration in seconds if 0.0 < duration < LARGEST]
    young = max(0, min(YOUNG, len(seconds) - 1))
    settled = sum(seconds[young:]) if young else 0.0
    since = run.frames - run.rows[young - 1]["frames"] if young else 0.0
    return {
        "name": run.name,
        "tone": group.tone,
        "seed": run.seed,
        "state": run.state,
        "frames": run.frames,
        "seconds": round(sum(seconds), 1),
        "fps": round(since / settled) if settled > _SHORTEST_S else None,
    }


def _finals(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return the final evaluations of every group: the mean over runs, and the values of the runs."""
    found: list[dict[str, Any]] = []
    for group in groups:
        objective = group.runs[0].objective
        names = dict.fromkeys(
            key for run in group.runs for key in run.summary if _is_final(key, objective)
        )
        for name in sorted(names, key=lambda name: not name.endswith(f"/{objective}")):
            values = [drawable(run.summary.get(name)) for run in group.runs]
            whole = _over_runs(values, name, group.runs[0].summary)
            found.append(
                {
                    "label": group.label,
                    "tone": group.tone,
                    "where": name.split("/")[1],
                    "what": name.split("/")[2],
                    "values": values,
                    "mean": whole.mean[0],
                    "low": whole.low[0],
                    "high": whole.high[0],
                }
            )
    return found


def _over_runs(values: Numbers, metric: str, first: Mapping[str, float]) -> Band:
    """Return the mean over runs with its interval, or that of the episodes of a single run."""
    found = band([[value] for value in values], share=unit_of(metric) == SHARE)
    if len(values) > 1:
        return found
    low, high = ([drawable(first.get(f"{metric}{bound}"))] for bound in BOUNDS)
    return Band(found.mean, low, high)


def _is_final(key: str, objective: str) -> bool:
    parts = key.split("/")
    return len(parts) == 3 and parts[0] == "eval" and parts[2] in (objective, "return")


def _last(group: Group, metric: str) -> str | None:
    """Return the last value of a metric in words, with its interval, or None if there is none."""
    ends = [_last_row(run, metric) for run in group.runs]
    values = [drawable(end.get(metric)) for end in ends]
    (mean,), (low,), (high,) = _over_runs(values, metric, ends[0])
    if mean is None:
        return None
    kind, _, name = metric.partition("/")
    against = f" against {group.runs[0].opponent}" if group.runs[0].opponent else ""
    when = f"{_episodes(group)}{against}" if kind == "eval" else f"while training{against}"
    return f"{name} {_interval_text({'mean': mean, 'low': low, 'high': high})}, {when}"


def _last_row(run: Run, metric: str) -> dict[str, float]:
    """Return the last value of a metric, and its bounds of that iteration."""
    (known,) = np.nonzero(np.isfinite(column(run.rows, metric)))
    if not known.size:
        return {}
    names = (metric, *(f"{metric}{bound}" for bound in BOUNDS))
    return {name: float(column(run.rows, name)[known[-1]]) for name in names}


def _episodes(group: Group) -> str:
    number = group.runs[0].eval_episodes
    return "held-out episodes" if number is None else f"{number} held-out episodes"


def _where(group: Group, name: str) -> str:
    """Return where an evaluation was: against an opponent, or in the world itself."""
    return f"against {name}" if group.runs[0].opponent else f"in {name}"


def _interval_text(found: Mapping[str, Any]) -> str:
    if found["low"] is None or found["high"] is None:
        return f"{found['mean']:.3g}"
    return f"{found['mean']:.3g} ({found['low']:.3g}..{found['high']:.3g})"
