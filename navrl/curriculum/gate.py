"""A gate: what the statistics of held-out episodes must be before a lesson counts as learned."""

import math
from collections.abc import Mapping

WORST = "worst_"  # worst_win is the mean of win against whom it is lowest
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

    def passed(self, seen: Mapping[str, float]) -> bool:
        """Every demand is met; a gate without demands is never passed."""
        enough = all(seen[name] >= least for name, least in self.at_least.items())
        few = all(seen[name] <= most for name, most in self.at_most.items())
        return bool(self.names) and enough and few

    def forgotten(self, seen: Mapping[str, float]) -> bool:
        """A mean that was to be high is missed by more than the slack."""
        return not all(seen[name] >= least - self.slack for name, least in self.at_least.items())


def _measured(name: str, means: Mapping[str, float]) -> float:
    """A mean, or the ratio of two; infinite where there was nothing to divide by."""
    whole, per, part = name.partition(PER)
    if not per:
        return means[name]
    return means[whole] / means[part] if means[part] else math.inf
