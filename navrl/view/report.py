"""What a report shows of runs: which charts there are, and which lines are in them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from navrl.view.curves import Axis, Band, axis, band, curve

_BOUNDS = ("_low", "_high")
_PAID = "_mean"  # ends the names of what agents are paid a step; other rewards are of episodes
_TOLD_ELSEWHERE = ("episode/count", "eval/policy_version", "sync/policy_version", "time/eta_s")
_TIMES = ("collect", "update", "evaluate", "curriculum", "rollouts", "save")


class Run(NamedTuple):
    """A run's records."""

    name: str
    label: str  # runs that differ in their seed only have the same
    seed: int
    state: str
    objective: str
    rows: Sequence[dict[str, float]]
    summary: Mapping[str, float]


class Group(NamedTuple):
    """The runs of one label."""

    label: str
    tone: int  # its colour in the page
    runs: list[Run]


def report(runs: Sequence[Run], *, title: str, subtitle: str) -> dict[str, Any]:
    """Everything that the page needs."""
    labels = list(dict.fromkeys(run.label for run in runs))
    groups = [
        Group(label, tone, [run for run in runs if run.label == label])
        for tone, label in enumerate(labels)
    ]
    on = axis([run.rows for run in runs])
    drawn = _Drawn(groups, on)
    names = list(dict.fromkeys(key for run in runs for row in run.rows for key in row))
    names = [name for name in names if "/" in name and not name.endswith(_BOUNDS)]
    sections = [
        _section("Learning", _LEARNING, drawn.learning(names)),
        _section("Reward", _REWARD, drawn.rewards(names)),
        _section("Skills", _SKILLS, drawn.skills(names)),
        _section("Rounds", _ROUNDS, drawn.rounds(names)),
        _section("Performance", _PERFORMANCE, drawn.performance(names)),
        _section("Updates", "", drawn.singly(names, _is_of_updates), folded=True),
        _section("Everything else", "", drawn.rest(names), folded=True),
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
_REWARD = "What each term added to the return of an episode, and what agents were paid a step."
_SKILLS = "How often each skill was chosen, whether choices changed, and how far skills can be told apart."
_ROUNDS = "Log-probs replayed before learning, and decisions by what ended them: all by one policy version."
_PERFORMANCE = "Speed, where the time of a round went, and memory."


class _Drawn:
    """Charts of the groups on their axis."""

    def __init__(self, groups: Sequence[Group], on: Axis) -> None:
        self._groups, self._on = groups, on
        self._used: set[str] = set(_TOLD_ELSEWHERE)

    def learning(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The objectives first, then return and length, then every other statistic of episodes."""
        objectives = [f"episode/{group.runs[0].objective}" for group in self._groups]
        first = dict.fromkeys([*objectives, "episode/return", "episode/length"])
        others = [name for name in names if name.startswith("episode/")]
        evaluated = [name.replace("eval/", "episode/", 1) for name in names if _is_evaluated(name)]
        for name in dict.fromkeys([*first, *others, *evaluated]):
            beside = name.replace("episode/", "eval/", 1)
            if name in self._used or not {name, beside} & set(names):
                continue
            lines = self._lines(name, each=True) + self._lines(beside, dashed=True)
            yield _chart(name.removeprefix("episode/"), lines)

    def rewards(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """One chart for each group, in which the terms are the lines."""
        found = [name for name in names if name.startswith("reward/")]
        terms = [name for name in found if not name.endswith(_PAID)]
        paid = [name for name in found if name.endswith(_PAID)]
        yield from self._by_group("by term, of an episode", terms)
        yield from self._by_group("paid to agents, a step", paid)

    def skills(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Shares of skills on top of each other, and what else is known of them."""
        for title, start in (("skills of the team", "Z"), ("skills of agents", "z")):
            known = [name for name in names if name.startswith(f"skill/usage_{start}_")]
            yield from self._by_group(f"{title}, share of decisions", known, kind="stack")
        rest = ("switches", "distinct_frac", "entropy_team", "entropy_indiv", "mi_team", "mi_indiv")
        yield from self.singly(names, lambda name: name in [f"skill/{one}" for one in rest])
        yield from self.singly(names, lambda name: name.startswith("skill/"))

    def rounds(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Proofs that a round was learned from by the policy that collected it."""
        reasons = [name for name in names if name.startswith("sync/high_by_reason/")]
        yield from self._by_group("decisions by what ended them", reasons, kind="stack")
        yield from self.singly(names, lambda name: name.startswith("sync/"))

    def performance(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Speed, times on top of each other, memory."""
        yield from self.singly(names, lambda name: name in ("time/fps", "time/collect_fps"))
        times = [f"time/{part}" for part in _TIMES if f"time/{part}" in names]
        yield from self._by_group("where time goes, seconds of a round", times, kind="sum")
        yield from self.singly(names, lambda name: name.startswith(("memory/", "time/")))

    def rest(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Whatever an env or a curriculum has logged beside that."""
        yield from self.singly(names, lambda name: True)

    def singly(
        self, names: Sequence[str], wanted: Callable[[str], bool]
    ) -> Iterator[dict[str, Any]]:
        """One chart for each metric that has none yet, in which the groups are the lines."""
        for name in names:
            if wanted(name) and name not in self._used:
                yield _chart(name, self._lines(name))

    def _by_group(
        self, title: str, metrics: Sequence[str], kind: str = "lines"
    ) -> Iterator[dict[str, Any]]:
        """One chart for each group that knows the metrics, in which they are the lines."""
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
        self, name: str, *, each: bool = False, dashed: bool = False
    ) -> list[dict[str, Any]]:
        """A line for each group that knows the metric."""
        self._used.add(name)
        lines = []
        for group in self._groups:
            found, curves = self._band(group, name)
            label = f"{group.label}, evaluated" if dashed else group.label
            line = _line(label, group.tone, found) | {"dashed": dashed}
            if each and len(curves) > 1:
                line["each"] = curves
            lines.append(line)
        return [line for line in lines if _known(line)]

    def _band(self, group: Group, name: str) -> tuple[Band, list[Any]]:
        curves = [curve(run.rows, name, self._on) for run in group.runs]
        return band(curves), curves


def _is_evaluated(name: str) -> bool:
    return name.startswith("eval/") and not name.startswith(("eval/reward_", "eval/policy_version"))


def _is_of_updates(name: str) -> bool:
    return name.startswith(("loss/", "policy/", "high/", "low/", "disc/", "guard/"))


def _short(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(_PAID).removeprefix("usage_")


def _line(label: str, tone: int, found: Band) -> dict[str, Any]:
    return {"label": label, "tone": tone, "mean": found.mean, "deviation": found.deviation}


def _known(line: Mapping[str, Any]) -> bool:
    return any(value is not None for value in line["mean"])


def _chart(title: str, lines: list[dict[str, Any]], kind: str = "lines") -> dict[str, Any]:
    return {"title": title, "kind": kind, "lines": lines}


def _section(
    title: str, told: str, charts: Iterator[dict[str, Any]], *, folded: bool = False
) -> dict[str, Any]:
    drawn = [chart for chart in charts if chart["lines"]]
    return {"title": title, "told": told, "folded": folded, "charts": drawn}


def _row(run: Run, group: Group) -> dict[str, Any]:
    """A line of the table of runs."""
    seconds = [row["time/iteration"] for row in run.rows if "time/iteration" in row]
    frames = [row["frames"] for row in run.rows]
    settled = sum(seconds[1:])  # the first round compiles
    return {
        "name": run.name,
        "tone": group.tone,
        "seed": run.seed,
        "state": run.state,
        "frames": frames[-1],
        "seconds": round(sum(seconds), 1),
        "fps": round((frames[-1] - frames[0]) / settled) if settled else None,
    }


def _finals(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """The final evaluations: of every group the mean over runs, and every run's."""
    found: list[dict[str, Any]] = []
    for group in groups:
        objective = group.runs[0].objective
        names = dict.fromkeys(
            key for run in group.runs for key in run.summary if _is_final(key, objective)
        )
        for name in sorted(names, key=lambda name: not name.endswith(f"/{objective}")):
            values = [run.summary.get(name) for run in group.runs]
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
