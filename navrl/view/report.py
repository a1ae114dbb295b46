"""The data of the report page: tables, and sections of charts with means and 95 % intervals of groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from navrl.view.curves import (
    LARGEST,
    Axis,
    Band,
    Numbers,
    Rows,
    axis,
    band,
    column,
    curve,
    drawable,
    metrics_of,
    settled,
)

_BOUNDS = ("_low", "_high")
_PER_STEP = "low/reward/"  # of an agent per step; other rewards are of episodes
_SHOWN_ELSEWHERE = ("episode/count", "eval/policy_version", "sync/policy_version", "time/eta_s")
_SHORTEST_S = 1e-3  # of a run whose speed is known
_TIMES = ("collect", "update", "evaluate", "curriculum", "rollouts", "save")


class Run(NamedTuple):
    """The records of one run."""

    name: str
    label: str  # equal for runs that differ in their seed only
    seed: int
    state: str
    objective: str
    rows: Rows
    summary: Mapping[str, float]

    @property
    def frames(self) -> float:
        """Return the frames so far; 0 of a run that failed before its first iteration."""
        return self.rows[-1]["frames"] if self.rows else 0.0


class Group(NamedTuple):
    """The runs with one label."""

    label: str
    tone: int  # its colour in the page
    runs: list[Run]


def report(runs: Sequence[Run], *, title: str, subtitle: str) -> dict[str, Any]:
    """Return the data that the scripts of the page read."""
    labels = list(dict.fromkeys(run.label for run in runs))
    groups = [
        Group(label, tone, [run for run in runs if run.label == label])
        for tone, label in enumerate(labels)
    ]
    on = axis([run.rows for run in runs])
    charts = _Charts(groups, on)
    names = list(dict.fromkeys(key for run in runs for key in metrics_of(run.rows)))
    names = [name for name in names if "/" in name and not name.endswith(_BOUNDS)]
    sections = [
        _section("Learning", _LEARNING, charts.learning(names)),
        _section("Reward", _REWARD, charts.rewards(names)),
        _section("Skills", _SKILLS, charts.skills(names)),
        _section("Rollouts", _ROLLOUTS, charts.rollouts(names)),
        _section("Performance", _PERFORMANCE, charts.performance(names)),
        _section("Updates", "", charts.singly(names, _is_of_updates), folded=True),
        _section("Everything else", "", charts.rest(names), folded=True),
    ]
    return {
        "title": title,
        "subtitle": subtitle,
        "badge": None,
        "frames": on.ends,
        "groups": [
            {"label": group.label, "tone": group.tone, "runs": len(group.runs)} for group in groups
        ],
        "table": [_row(run, group) for group in groups for run in group.runs],
        "finals": _finals(groups),
        "sections": [section for section in sections if section["charts"]],
    }


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
_PERFORMANCE = "Speed, the parts of the time of an iteration, and memory."


_SHARE = "share of episodes"
_UNITS = (  # of metrics whose name matches, first come, first served
    (r"(episode|eval)/(.*/)?(win|loss|draw|success|collision\w*|timeout|outside)", _SHARE),
    (r"(episode|eval)/(.*/)?length", "steps of an episode"),
    (r"(episode|eval)/(.*/)?return", "return of an episode"),
    (r"time/(.*_)?fps", "frames/s"),
    (r"time/.*", "s"),
    (r"memory/.*_mb", "MB"),
    (r".*entropy\w*", "nats"),
    (r".*kl\w*", "nats"),
    (r".*fraction\w*|skill/usage_.*", "share"),
)


def unit_of(metric: str) -> str:
    """Return the unit of a metric for the label of an axis, or the last part of its name."""
    known = (unit for pattern, unit in _UNITS if re.fullmatch(pattern, metric))
    return next(known, metric.rpartition("/")[2].replace("_", " "))


class _Charts:
    """The charts of the groups on their axis."""

    def __init__(self, groups: Sequence[Group], on: Axis) -> None:
        self._groups, self._on = groups, on
        self._used: set[str] = set(_SHOWN_ELSEWHERE)

    def learning(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the objectives, then return and length, then every other statistic of episodes."""
        objectives = [f"episode/{group.runs[0].objective}" for group in self._groups]
        first = dict.fromkeys([*objectives, "episode/return", "episode/length"])
        others = [name for name in names if name.startswith("episode/")]
        evaluated = [name.replace("eval/", "episode/", 1) for name in names if _is_evaluated(name)]
        for name in dict.fromkeys([*first, *others, *evaluated]):
            held_out = name.replace("episode/", "eval/", 1)
            if name in self._used or not {name, held_out} & set(names):
                continue
            lines = self._lines(held_out, with_runs=True)
            if lines:
                lines += self._lines(name, pale=True)
            else:
                lines = self._lines(name, with_runs=True)
            yield _chart(name.removeprefix("episode/"), lines, unit=unit_of(name))

    def rewards(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield one chart for each group, in which the terms are the lines."""
        terms = [name for name in names if name.startswith("reward/")]
        per_step = [name for name in names if name.startswith(_PER_STEP)]
        yield from self._by_group("by term, of an episode", terms, unit="reward of an episode")
        yield from self._by_group("of agents, per step", per_step, unit="reward of a step")

    def skills(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield stacked shares of skills, then every other metric of skills."""
        for title, start in (("skills of the team", "Z"), ("skills of agents", "z")):
            known = [name for name in names if name.startswith(f"skill/usage_{start}_")]
            yield from self._by_group(f"{title}, share of decisions", known, "stack", "share")
        first = ("switches", "distinct_fraction", "mi_team", "mi_individual")
        yield from self.singly(names, lambda name: name in [f"skill/{metric}" for metric in first])
        yield from self.singly(names, lambda name: name.startswith("skill/"))

    def rollouts(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the checks that the policy that learned from a rollout also collected it."""
        reasons = [name for name in names if name.startswith("high/ended_by/")]
        yield from self._by_group("decisions by the reason they ended", reasons, "stack", "share")
        proofs = ("sync/", "high/sync/", "low/sync/")
        yield from self.singly(names, lambda name: name.startswith(proofs))

    def performance(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield speed, stacked times, and memory."""
        yield from self.singly(names, lambda name: name in ("time/fps", "time/collect_fps"))
        times = [f"time/{part}" for part in _TIMES if f"time/{part}" in names]
        yield from self._by_group("seconds of an iteration, by part", times, "sum", "s")
        yield from self.singly(names, lambda name: name.startswith(("memory/", "time/")))

    def rest(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield every remaining metric that an env or a curriculum has logged."""
        yield from self.singly(names, lambda name: True)

    def singly(
        self, names: Sequence[str], wanted: Callable[[str], bool]
    ) -> Iterator[dict[str, Any]]:
        """Yield one chart for each metric that has none yet, in which the groups are the lines."""
        for name in names:
            if wanted(name) and name not in self._used:
                yield _chart(name, self._lines(name), unit=unit_of(name))

    def _by_group(
        self, title: str, metrics: Sequence[str], kind: str = "lines", unit: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Yield one chart for each group that has the metrics, in which they are the lines."""
        for group in self._groups:
            lines = [
                _line(_short(name), tone, band(self._curves(group, name)))
                for tone, name in enumerate(metrics)
            ]
            if any(_known(line) for line in lines):
                where = f"{group.label}: " if len(self._groups) > 1 else ""
                yield _chart(f"{where}{title}", lines, unit=unit, kind=kind)
        self._used |= set(metrics)

    def _lines(
        self, name: str, *, with_runs: bool = False, pale: bool = False
    ) -> list[dict[str, Any]]:
        """Return a line for each group that has the metric; a pale one is of episodes of training."""
        self._used.add(name)
        lines = []
        for group in self._groups:
            curves = self._curves(group, name)
            label = f"{group.label}, training" if pale else group.label
            line = _line(label, group.tone, self._band(group, name, curves)) | {"pale": pale}
            if with_runs and len(curves) > 1:
                line["each"] = curves
            lines.append(line)
        return [line for line in lines if _known(line)]

    def _band(self, group: Group, name: str, curves: Sequence[Numbers]) -> Band:
        """Return the mean over runs with its interval, or the interval that a single run has logged."""
        if len(group.runs) > 1:
            return band(curves, share=unit_of(name) == _SHARE)
        low, high = (self._curves(group, f"{name}{bound}")[0] for bound in _BOUNDS)
        return Band(curves[0], low, high)

    def _curves(self, group: Group, name: str) -> list[Numbers]:
        return [curve(run.rows, name, self._on) for run in group.runs]


def _is_evaluated(name: str) -> bool:
    return name.startswith("eval/") and not name.startswith(("eval/reward_", "eval/policy_version"))


def _is_of_updates(name: str) -> bool:
    return name.startswith(("loss/", "policy/", "high/", "low/", "discriminator/"))


def _short(name: str) -> str:
    return name.rpartition("/")[2].removeprefix("usage_")


def _line(label: str, tone: int, found: Band) -> dict[str, Any]:
    line = {"label": label, "tone": tone, "mean": found.mean}
    known = any(value is not None for value in found.low)
    return line | {"low": found.low, "high": found.high} if known else line


def _known(line: Mapping[str, Any]) -> bool:
    return any(value is not None for value in line["mean"])


def _chart(
    title: str, lines: list[dict[str, Any]], *, unit: str, kind: str = "lines"
) -> dict[str, Any]:
    """Return a chart; `settled` is the first step that counts for the range of its axis."""
    seen = [line["mean"] for line in lines] + [
        each for line in lines for each in line.get("each", [])
    ]
    first = settled(seen) if kind != "stack" and seen else 0
    return {"title": title, "unit": unit, "kind": kind, "lines": lines, "settled": first}


def _section(
    title: str, text: str, charts: Iterator[dict[str, Any]], *, folded: bool = False
) -> dict[str, Any]:
    shown = [chart for chart in charts if chart["lines"]]
    return {"title": title, "text": text, "folded": folded, "charts": shown}


def _row(run: Run, group: Group) -> dict[str, Any]:
    """Return a row of the table of runs."""
    seconds = column(run.rows, "time/iteration").tolist()
    seconds = [duration for duration in seconds if 0.0 < duration < LARGEST]
    settled = sum(seconds[1:])  # the first iteration compiles
    since = run.frames - run.rows[0]["frames"] if run.rows else 0.0
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
            whole = _final_band(group, name, values)
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


def _final_band(group: Group, name: str, values: Numbers) -> Band:
    """Return the mean over runs with its interval, or that of the episodes of a single run."""
    found = band([[value] for value in values], share=unit_of(name) == _SHARE)
    if len(values) > 1:
        return found
    low, high = ([drawable(group.runs[0].summary.get(f"{name}{bound}"))] for bound in _BOUNDS)
    return Band(found.mean, low, high)


def _is_final(key: str, objective: str) -> bool:
    parts = key.split("/")
    return len(parts) == 3 and parts[0] == "eval" and parts[2] in (objective, "return")
