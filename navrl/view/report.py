"""The data of the report page: sections, charts, and the curves of runs with means and deviations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

_BOUNDS = ("_low", "_high")
_PER_STEP = "low/reward/"  # of an agent per step; other rewards are of episodes
_SHOWN_ELSEWHERE = ("episode/count", "eval/policy_version", "sync/policy_version", "time/eta_s")
_LARGEST = 1e150  # whose square, in a deviation, is still a number
_SHORTEST_S = 1e-3  # of a run whose speed is known
_TIMES = ("collect", "update", "evaluate", "curriculum", "rollouts", "save")


class Run(NamedTuple):
    """The records of one run."""

    name: str
    label: str  # equal for runs that differ in their seed only
    seed: int
    state: str
    objective: str
    rows: Sequence[dict[str, float]]
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
    names = list(dict.fromkeys(key for run in runs for row in run.rows for key in row))
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
        "frames": on.ends,
        "groups": [
            {"label": group.label, "tone": group.tone, "runs": len(group.runs)} for group in groups
        ],
        "table": [_row(run, group) for group in groups for run in group.runs],
        "finals": _finals(groups),
        "sections": [section for section in sections if section["charts"]],
    }


_LEARNING = (
    "Episodes that ended while training, and dashed the evaluations with the most probable actions. A band "
    "is one standard deviation over runs to either side of their mean; thin lines are the runs."
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
            beside = name.replace("episode/", "eval/", 1)
            if name in self._used or not {name, beside} & set(names):
                continue
            lines = self._lines(name, with_runs=True) + self._lines(beside, dashed=True)
            yield _chart(name.removeprefix("episode/"), lines)

    def rewards(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield one chart for each group, in which the terms are the lines."""
        terms = [name for name in names if name.startswith("reward/")]
        per_step = [name for name in names if name.startswith(_PER_STEP)]
        yield from self._by_group("by term, of an episode", terms)
        yield from self._by_group("of agents, per step", per_step)

    def skills(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield stacked shares of skills, then every other metric of skills."""
        for title, start in (("skills of the team", "Z"), ("skills of agents", "z")):
            known = [name for name in names if name.startswith(f"skill/usage_{start}_")]
            yield from self._by_group(f"{title}, share of decisions", known, kind="stack")
        first = ("switches", "distinct_fraction", "mi_team", "mi_individual")
        yield from self.singly(names, lambda name: name in [f"skill/{metric}" for metric in first])
        yield from self.singly(names, lambda name: name.startswith("skill/"))

    def rollouts(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the checks that the policy that learned from a rollout also collected it."""
        reasons = [name for name in names if name.startswith("high/ended_by/")]
        yield from self._by_group("decisions by the reason they ended", reasons, kind="stack")
        proofs = ("sync/", "high/sync/", "low/sync/")
        yield from self.singly(names, lambda name: name.startswith(proofs))

    def performance(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield speed, stacked times, and memory."""
        yield from self.singly(names, lambda name: name in ("time/fps", "time/collect_fps"))
        times = [f"time/{part}" for part in _TIMES if f"time/{part}" in names]
        yield from self._by_group("seconds of an iteration, by part", times, kind="sum")
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
                yield _chart(name, self._lines(name))

    def _by_group(
        self, title: str, metrics: Sequence[str], kind: str = "lines"
    ) -> Iterator[dict[str, Any]]:
        """Yield one chart for each group that has the metrics, in which they are the lines."""
        for group in self._groups:
            lines = [
                _line(_short(name), tone, self._band(group, name)[0])
                for tone, name in enumerate(metrics)
            ]
            if any(_known(line) for line in lines):
                where = f"{group.label}: " if len(self._groups) > 1 else ""
                yield _chart(f"{where}{title}", lines, kind)
        self._used |= set(metrics)

    def _lines(
        self, name: str, *, with_runs: bool = False, dashed: bool = False
    ) -> list[dict[str, Any]]:
        """Return a line for each group that has the metric."""
        self._used.add(name)
        lines = []
        for group in self._groups:
            found, curves = self._band(group, name)
            label = f"{group.label}, evaluated" if dashed else group.label
            line = _line(label, group.tone, found) | {"dashed": dashed}
            if with_runs and len(curves) > 1:
                line["each"] = curves
            lines.append(line)
        return [line for line in lines if _known(line)]

    def _band(self, group: Group, name: str) -> tuple[Band, list[Any]]:
        curves = [curve(run.rows, name, self._on) for run in group.runs]
        return band(curves), curves


def _is_evaluated(name: str) -> bool:
    return name.startswith("eval/") and not name.startswith(("eval/reward_", "eval/policy_version"))


def _is_of_updates(name: str) -> bool:
    return name.startswith(("loss/", "policy/", "high/", "low/", "discriminator/"))


def _short(name: str) -> str:
    return name.rpartition("/")[2].removeprefix("usage_")


def _line(label: str, tone: int, found: Band) -> dict[str, Any]:
    return {"label": label, "tone": tone, "mean": found.mean, "deviation": found.deviation}


def _known(line: Mapping[str, Any]) -> bool:
    return any(value is not None for value in line["mean"])


def _chart(title: str, lines: list[dict[str, Any]], kind: str = "lines") -> dict[str, Any]:
    return {"title": title, "kind": kind, "lines": lines}


def _section(
    title: str, text: str, charts: Iterator[dict[str, Any]], *, folded: bool = False
) -> dict[str, Any]:
    shown = [chart for chart in charts if chart["lines"]]
    return {"title": title, "text": text, "folded": folded, "charts": shown}


def _row(run: Run, group: Group) -> dict[str, Any]:
    """Return a row of the table of runs."""
    seconds = [row.get("time/iteration", math.nan) for row in run.rows]
    seconds = [duration for duration in seconds if 0.0 < duration < _LARGEST]
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
            values = [_drawn(run.summary.get(name)) for run in group.runs]
            whole = band([[value] for value in values])
            found.append(
                {
                    "label": group.label,
                    "tone": group.tone,
                    "where": name.split("/")[1],
                    "what": name.split("/")[2],
                    "values": values,
                    "mean": whole.mean[0],
                    "deviation": whole.deviation[0],
                }
            )
    return found


def _is_final(key: str, objective: str) -> bool:
    parts = key.split("/")
    return len(parts) == 3 and parts[0] == "eval" and parts[2] in (objective, "return")


# ---- curves over frames, with means and deviations over runs ---------------------------------------

Numbers = list[float | None]  # None where a run has no value

_MOST_POINTS = 240
_DIGITS = 5


class Axis(NamedTuple):
    """An axis of equal steps of frames; a row within a step counts as logged at the end of the step."""

    frames: float  # of a step
    points: int

    @property
    def ends(self) -> list[int]:
        """Return the frames at which the steps end."""
        return [round(self.frames * (step + 1)) for step in range(self.points)]

    def place(self, frames: float) -> int:
        """Return the step that contains these frames."""
        return min(max(math.ceil(frames / self.frames - 1e-9) - 1, 0), self.points - 1)


class Band(NamedTuple):
    """The mean over runs and their sample standard deviation, which is None for a single run."""

    mean: Numbers
    deviation: Numbers


def axis(rows: Sequence[Sequence[dict[str, float]]]) -> Axis:
    """Return an axis with as many steps as the longest run has iterations, up to what a screen can show."""
    most = max((row["frames"] for run in rows for row in run), default=1.0)
    iterations = max((len({row["frames"] for row in run}) for run in rows), default=1)
    points = max(min(iterations, _MOST_POINTS), 1)
    return Axis(max(most, 1.0) / points, points)


def curve(rows: Sequence[dict[str, float]], metric: str, on: Axis) -> Numbers:
    """Return the mean of a metric over the rows of each step, for one run."""
    found: list[list[float]] = [[] for _ in range(on.points)]
    for row in rows:
        value = _drawn(row.get(metric))
        if value is not None:
            found[on.place(row["frames"])].append(value)
    return [_rounded(fmean(values)) if values else None for values in found]


def band(curves: Sequence[Numbers]) -> Band:
    """Return mean and deviation of several curves, step by step, over the runs that have a value."""
    columns = [[value for value in step if value is not None] for step in zip(*curves, strict=True)]
    return Band(
        [_rounded(fmean(values)) if values else None for values in columns],
        [_rounded(stdev(values)) if len(values) > 1 else None for values in columns],
    )


def _drawn(value: float | None) -> float | None:
    """Return the value if a picture can show it."""
    return value if value is not None and abs(value) < _LARGEST else None  # also not of nan


def _rounded(value: float) -> float:
    """Return the value with as many digits as a picture needs."""
    return float(f"{value:.{_DIGITS}g}")
