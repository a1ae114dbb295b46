"""Charts of groups of runs over frames, one for each metric or for several that belong together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from navrl.view.curves import Axis, Band, Numbers, Rows, band, curve, settled

BOUNDS = ("_low", "_high")
SHARE = "share of episodes"
_PER_STEP = "low/reward/"  # of an agent per step; other rewards are of episodes
_ELSEWHERE = (
    *("episode/count", "eval/policy_version", "sync/policy_version"),
    *("time/eta_s", "time/progress"),
)
_TIMES = ("collect", "update", "evaluate", "curriculum", "rollouts", "save")
_FEWEST = 3  # values of a line that may be called constant


class Run(NamedTuple):
    """The records of one run."""

    name: str
    label: str  # equal for runs that differ in their seed only
    seed: int
    state: str
    objective: str
    rows: Rows
    summary: Mapping[str, float]
    opponent: str = ""  # of training and of held-out episodes, "" in a world without one
    eval_episodes: int | None = None

    @property
    def frames(self) -> float:
        """Return the frames so far; 0 of a run that failed before its first iteration."""
        return self.rows[-1]["frames"] if self.rows else 0.0


class Group(NamedTuple):
    """The runs with one label."""

    label: str
    tone: int  # its colour in the page
    runs: list[Run]


_UNITS = (  # of metrics whose name matches, first come, first served
    (
        r"(episode|eval)/(.*/)?(win|loss|draw|kill|survival|success|collision\w*|timeout|outside)",
        SHARE,
    ),
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
    """Return the unit of a metric for the label of an axis, or its name."""
    known = (unit for pattern, unit in _UNITS if re.fullmatch(pattern, metric))
    short = metric.rpartition("/")[2].replace("_", " ")
    return next(known, short if metric.startswith(("episode/", "eval/")) else metric)


class Charts:
    """The charts of the groups on their axis."""

    def __init__(self, groups: Sequence[Group], on: Axis) -> None:
        self._groups, self._on = groups, on
        self._used: set[str] = set(_ELSEWHERE)

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
        yield from self._by_group("reward by term", terms, unit="reward of an episode")
        yield from self._by_group("reward of agents by term", per_step, unit="reward of a step")

    def lessons(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the stages of a curriculum, and the ratings of a league."""
        yield from self.singly(names, lambda name: name.startswith(("curriculum/", "league/")))

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
        """Yield speed, what the time of an iteration is made of, and memory."""
        yield from self.singly(names, lambda name: name == "time/fps")
        times = [f"time/{part}" for part in _TIMES if f"time/{part}" in names]
        yield from self._by_group("time of an iteration by part", times, "sum", "s")
        yield from self.singly(names, lambda name: name.startswith("memory/"))

    def updates(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield losses, gradients and what else an agent has logged of its updates."""
        yield from self.singly(
            names,
            lambda name: name.startswith(("loss/", "policy/", "high/", "low/", "discriminator/")),
        )

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
            zero = [line["label"] for line in lines if not any(line["mean"])]
            shown = [line for line in lines if any(line["mean"])]
            if shown:
                where = f"{group.label}: " if len(self._groups) > 1 else ""
                yield _chart(f"{where}{title}", shown, unit=unit, kind=kind) | {"zero": zero}
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
            return band(curves, share=unit_of(name) == SHARE)
        low, high = (self._curves(group, f"{name}{bound}")[0] for bound in BOUNDS)
        return Band(curves[0], low, high)

    def _curves(self, group: Group, name: str) -> list[Numbers]:
        return [curve(run.rows, name, self._on) for run in group.runs]


def _is_evaluated(name: str) -> bool:
    return name.startswith("eval/") and not name.startswith(("eval/reward_", "eval/policy_version"))


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
    return {
        **{"title": title, "unit": unit, "kind": kind},
        **{"lines": lines, "settled": first, "same": [], "zero": []},
    }


def distinct(
    charts: Iterable[dict[str, Any]], seen: dict[Any, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the charts whose lines no chart that was seen has; that one gets the titles of the others."""
    for chart in charts:
        lines = [(line["tone"], tuple(line["mean"])) for line in chart["lines"]]
        known = (chart["kind"], *lines)
        if known in seen:
            seen[known]["same"].append(chart["title"])
        elif lines:
            seen[known] = chart
            yield chart


def constant_text(chart: Mapping[str, Any]) -> str | None:
    """Return "<metric> <value>", or a value for each line, if no line ever changes."""
    if chart["kind"] != "lines":
        return None
    columns = [[value for value in line["mean"] if value is not None] for line in chart["lines"]]
    if any(len({*values}) != 1 or len(values) < _FEWEST for values in columns):
        return None
    values = dict.fromkeys(f"{values[0]:.3g}" for values in columns)
    return f"{chart['title']} {' and '.join(values)}"
