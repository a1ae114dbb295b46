"""Several scenarios in one run: every episode draws one of them."""

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from navrl.envs.combat.scenarios import Scenario
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.core import random
from navrl.envs.core.weights import Weights


class ScenarioMixture:
    """All scenarios are opened in every env, the drawn one is kept: no branch, no host synchronisation."""

    def __init__(self, *, scenarios: Mapping[str, Scenario], weights: Mapping[str, float]) -> None:
        self.scenarios = dict(scenarios)
        self.weights = Weights(names=self.scenarios, weights=weights, setting="scenario.weights")

    @property
    def names(self) -> tuple[str, ...]:
        """What it draws from."""
        return self.weights.names

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Draw the scenarios this often in the episodes that begin from now on."""
        self.weights.set(weights)

    def opening(self, key: Tensor, team_size: int) -> Motion:
        """Motion of all aircraft, fields (A, N): bit for bit that of the drawn scenario alone."""
        choice = self.weights.choose(random.uniform(key, random.MIXTURE, 1)[0])
        first, *others = [scenario.opening(key, team_size) for scenario in self.scenarios.values()]
        for index, other in enumerate(others, 1):
            pairs = zip(other, first, strict=True)
            first = Motion(*(torch.where(choice == index, a, b) for a, b in pairs))
        return first

    def checked(self) -> Self:
        """Self, or the complaint of one of the scenarios."""
        for scenario in self.scenarios.values():
            scenario.checked()
        return self

    def to(self, device: torch.device | str) -> None:
        """Hold the weights on this device."""
        self.weights.to(device)
        for scenario in self.scenarios.values():
            scenario.to(device)
