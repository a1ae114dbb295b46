"""A gate: what the statistics of held-out episodes must be before a lesson counts as learned."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

WORST = "worst_"  # worst_win is the mean of win against whom it is lowest
AGAINST = "_against_"  # win_against_crank is the mean of win in the episodes against it
PER = "_per_"  # launches_per_kills is the mean of launches for each of kills
LEAST_GROUP = 30  # episodes: the lowest mean of fewer ones says who had bad luck


class Gate:
    """Least and greatest means; slack is how far an old lesson may slip before it is repeated."""

    def __init__(
        self, *, at_least: Mapping[str, float], at_most: Mapping[str, float], slack: float
    ) -> None:
        self.at_least, self.at_most, self.slack = at_least, at_most, slack

    @property
    def names(self) -> list[str]:
        """The statistics that it looks at."""
        return [*self.at_least, *self.at_most]

    def seen(self, means: Mapping[str, float]) -> dict[str, float]:
        """What it looks at, out of the means of all statistics."""
        return {name: _measured(name, means) for name in self.names}

    def told(self, means: Mapping[str, float]) -> str:
        """What it looks at with what it asks for, as in 'kill 0.61 (0.95 or more)'."""
        bounds = [(name, f"{least:g} or more") for name, least in self.at_least.items()]
        bounds += [(name, f"{most:g} or less") for name, most in self.at_most.items()]
        return ", ".join(
            f"{name} {_written(name, means)} ({bound}{_each(name, means)})"
            for name, bound in bounds
        )

    def passed(self, seen: Mapping[str, float]) -> bool:
        """Every demand is met; a gate without demands is never passed."""
        enough = all(seen[name] >= least for name, least in self.at_least.items())
        few = all(seen[name] <= most for name, most in self.at_most.items())
        return bool(self.names) and enough and few

    def forgotten(self, seen: Mapping[str, float]) -> bool:
        """A mean that was to be high is missed by more than the slack."""
        return not all(seen[name] >= least - self.slack for name, least in self.at_least.items())


def means(
    ends: Mapping[str, Sequence[float]], rates: Sequence[str], opponents: Sequence[str]
) -> dict[str, float]:
    """Of every statistic of these episodes; of rates also against everybody who was met, and the worst."""
    found = {name: fmean(values) for name, values in ends.items()}
    for name in rates:
        each = _by_opponent(ends, name, opponents)
        found |= {f"{name}{AGAINST}{opponent}": mean for opponent, mean in each.items()}
        found[f"{WORST}{name}"] = min(each.values())
    return found


def _by_opponent(
    ends: Mapping[str, Sequence[float]], name: str, opponents: Sequence[str]
) -> dict[str, float]:
    met: dict[int, list[float]] = defaultdict(list)
    for opponent, value in zip(ends["_opponent"], ends[name], strict=True):
        met[int(opponent)].append(value)
    return {opponents[number]: fmean(met[number]) for number in sorted(met)}


def _each(name: str, means: Mapping[str, float]) -> str:
    """Of whom the lowest mean is: the mean against everybody who was met."""
    if not name.startswith(WORST):
        return ""
    start = f"{name.removeprefix(WORST)}{AGAINST}"
    met = {key: value for key, value in means.items() if key.startswith(start)}
    listed = ", ".join(f"{key.removeprefix(start)} {value:.3g}" for key, value in met.items())
    return f": {listed}" if listed else ""


def _written(name: str, means: Mapping[str, float]) -> str:
    """Three digits; of a ratio without anything to divide by, what there was none of."""
    number = _measured(name, means)
    return f"no {name.partition(PER)[2]}" if math.isinf(number) else f"{number:.3g}"


def _measured(name: str, means: Mapping[str, float]) -> float:
    """A mean, or the ratio of two; infinite where there was nothing to divide by."""
    whole, per, part = name.partition(PER)
    if not per:
        return means[name]
    return means[whole] / means[part] if means[part] else math.inf
