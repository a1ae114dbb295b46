"""A gate: bounds on the statistics of evaluation episodes that a lesson must reach to count as learned."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from navrl.config.checks import ConfigError, require

WORST = "worst_"  # worst_win is the mean of win against the opponent for whom it is lowest
AGAINST = "_against_"  # win_against_crank is the mean of win in the episodes against crank
PER = "_per_"  # launches_per_kills is the mean of launches divided by the mean of kills
LEAST_GROUP = 30  # episodes: the lowest mean of smaller groups is a matter of luck


class Gate:
    """Least and greatest means; an old lesson may fall short by `slack` before it is repeated."""

    def __init__(
        self, *, at_least: Mapping[str, float], at_most: Mapping[str, float], slack: float
    ) -> None:
        self.at_least, self.at_most, self.slack = at_least, at_most, slack

    @property
    def names(self) -> list[str]:
        """Return the statistics that have a bound."""
        return [*self.at_least, *self.at_most]

    def values(self, means: Mapping[str, float]) -> dict[str, float]:
        """Return the values that have a bound, computed from the means of all statistics."""
        return {name: _value(name, means) for name in self.names}

    def describe(self, means: Mapping[str, float]) -> str:
        """Return the values with their bounds, as in 'kill 0.61 (0.95 or more)'."""
        bounds = [(name, f"{least:g} or more") for name, least in self.at_least.items()]
        bounds += [(name, f"{most:g} or less") for name, most in self.at_most.items()]
        return ", ".join(
            f"{name} {_written(name, means)} ({bound}{_by_each_opponent(name, means)})"
            for name, bound in bounds
        )

    def passed(self, values: Mapping[str, float]) -> bool:
        """Return True if every bound holds; a gate without bounds is never passed."""
        enough = all(values[name] >= least for name, least in self.at_least.items())
        few = all(values[name] <= most for name, most in self.at_most.items())
        return bool(self.names) and enough and few

    def forgotten(self, values: Mapping[str, float]) -> bool:
        """Return True if a value falls short of its lower bound by more than the slack."""
        return not all(values[name] >= least - self.slack for name, least in self.at_least.items())

    def check(self, place: str, statistics: Sequence[str], rates: Sequence[str]) -> None:
        """Raise ConfigError about unknown statistics, and bounds that cannot be met."""
        rates = [*rates, *(f"{WORST}{name}" for name in rates)]
        known = [*rates, *(name for name in statistics if name[0] != "_" and name not in rates)]
        for side, bounds in (("at_least", self.at_least), ("at_most", self.at_most)):
            here = f"{place}.{side}"
            require_mapping(here, bounds)
            for name, bound in bounds.items():
                require_known(here, name.split(PER, 1), known)
                possible = is_number(bound) and (name not in rates or 0.0 <= bound <= 1.0)
                wanted = "a rate from 0 to 1" if name in rates else "a finite number"
                require(possible, f"{here}.{name}", bound, wanted)
        for name in self.at_least.keys() & self.at_most.keys():
            if self.at_least[name] > self.at_most[name]:
                raise ConfigError(
                    f"{place} wants {name} of at least {self.at_least[name]} and at most "
                    f"{self.at_most[name]}; expected a range; change {place}"
                )
        usable = is_number(self.slack) and self.slack >= 0.0
        require(usable, f"{place}.slack", self.slack, "0 or more")

    def check_group_sizes(self, place: str, weights: Mapping[str, float], episodes: int) -> None:
        """Raise ConfigError if too few episodes meet an opponent for a bound on the worst one."""
        bounded = next((name for name in self.names if name.startswith(WORST)), None)
        if bounded is None:
            return
        drawn = {name: weight for name, weight in weights.items() if weight > 0.0}
        rarest = min(drawn, key=lambda name: drawn[name])
        share = drawn[rarest] / sum(drawn.values())
        if episodes * share < LEAST_GROUP:
            raise ConfigError(
                f"{place} has a bound on {bounded}, but {episodes * share:.3g} of {episodes} episodes meet "
                f"{rarest}; expected {LEAST_GROUP} or more; set num_envs={math.ceil(LEAST_GROUP / share)} "
                f"or change {place}"
            )


def means(
    ends: Mapping[str, Sequence[float]], rates: Sequence[str], opponents: Sequence[str]
) -> dict[str, float]:
    """Return the mean of every statistic; of rates also against each opponent, and the worst of these."""
    found = {name: fmean(values) for name, values in ends.items()}
    for name in rates:
        each = _by_opponent(ends, name, opponents)
        found |= {f"{name}{AGAINST}{opponent}": mean for opponent, mean in each.items()}
        found[f"{WORST}{name}"] = min(each.values())
    return found


def require_mapping(place: str, found: Any) -> None:
    """Raise ConfigError unless numbers are given by name."""
    require(isinstance(found, Mapping), place, found, "numbers by name")


def require_known(place: str, found: Iterable[str], names: Sequence[str]) -> None:
    """Raise ConfigError about the first unknown name."""
    for name in found:
        if name not in names:
            raise ConfigError(
                f"{place} names {name!r}; expected some of {', '.join(names)}; change {place}"
            )


def is_number(value: Any) -> bool:
    """Return True for a finite int or float."""
    return type(value) in (int, float) and math.isfinite(value)


def _by_opponent(
    ends: Mapping[str, Sequence[float]], name: str, opponents: Sequence[str]
) -> dict[str, float]:
    groups: dict[int, list[float]] = defaultdict(list)
    for opponent, value in zip(ends["_opponent"], ends[name], strict=True):
        groups[int(opponent)].append(value)
    return {opponents[number]: fmean(groups[number]) for number in sorted(groups)}


def _by_each_opponent(name: str, means: Mapping[str, float]) -> str:
    """Return the means behind a worst one, as in ': ace 1, bob 0.25'; nothing for other statistics."""
    if not name.startswith(WORST):
        return ""
    start = f"{name.removeprefix(WORST)}{AGAINST}"
    found = {key: value for key, value in means.items() if key.startswith(start)}
    listed = ", ".join(f"{key.removeprefix(start)} {value:.3g}" for key, value in found.items())
    return f": {listed}" if listed else ""


def _written(name: str, means: Mapping[str, float]) -> str:
    """Return the value with three digits, or 'no kills' for a ratio without a divisor."""
    number = _value(name, means)
    return f"no {name.partition(PER)[2]}" if math.isinf(number) else f"{number:.3g}"


def _value(name: str, means: Mapping[str, float]) -> float:
    """Return a mean, or the ratio of two; infinite if the divisor is 0."""
    whole, per, part = name.partition(PER)
    if not per:
        return means[name]
    return means[whole] / means[part] if means[part] else math.inf
