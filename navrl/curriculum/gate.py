"""A gate: what the statistics of held-out episodes must be before a lesson counts as learned."""

from collections.abc import Mapping


class Gate:
    """Least and greatest means; slack is how far an old lesson may slip before it is repeated."""

    def __init__(
        self, *, at_least: Mapping[str, float], at_most: Mapping[str, float], slack: float
    ) -> None:
        self.at_least, self.at_most, self.slack = dict(at_least), dict(at_most), slack

    @property
    def names(self) -> list[str]:
        """The statistics that it looks at."""
        return [*self.at_least, *self.at_most]

    def passed(self, found: Mapping[str, float]) -> bool:
        """Every demand is met; a gate without demands is never passed."""
        return bool(self.names) and self._holds(found, 0.0)

    def forgotten(self, found: Mapping[str, float]) -> bool:
        """A rate that was demanded is missed by more than the slack."""
        return not all(found[name] >= least - self.slack for name, least in self.at_least.items())

    def _holds(self, found: Mapping[str, float], slack: float) -> bool:
        enough = all(found[name] >= least - slack for name, least in self.at_least.items())
        return enough and all(found[name] <= most for name, most in self.at_most.items())
