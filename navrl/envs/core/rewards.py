"""Rewards as weighted sums of named terms; every term is logged under its name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.config.checks import ConfigError
from navrl.envs.core.reductions import sum_rows
from navrl.envs.core.weights import Coefficients, Weighted


class Transition(NamedTuple):
    """One step of N envs, in the terms of the simulator."""

    params: Any
    before: Any
    after: Any
    events: Any
    terminated: Tensor  # bool (N,), the episode is over
    truncated: Tensor  # bool (N,), cut by a time limit; never where terminated
    team: int = 0  # the rewarded side
    agent: int | None = None  # the rewarded one of it; None: all of them


Term = Callable[[Transition], Tensor]


class WeightedReward(Weighted):
    """The sum of all terms, each times its weight."""

    def __init__(self, *, terms: Mapping[str, Term], weights: Mapping[str, float]) -> None:
        self.terms = dict(terms)
        self.weights = Coefficients(names=self.terms, weights=weights, setting="reward.weights")

    def prepare(self, params: Any, device: torch.device | str) -> None:
        """Move to this device, and let the terms build their tensors."""
        self.weights.to(device)
        for name, term in self.terms.items():
            require_reads(f"reward term '{name}'", getattr(term, "func", term), params)
            if hasattr(term, "prepare"):  # it holds tensors
                term.prepare(params, device)

    def __call__(self, transition: Transition) -> tuple[Tensor, list[Tensor]]:
        """Return the reward (N,), and the weighted part of each term."""
        return _with_total(transition, self._weighted(transition))

    def _weighted(self, transition: Transition) -> list[Tensor]:
        weights = self.weights.tensor.unbind()
        terms = self.terms.values()
        return [weight * term(transition) for weight, term in zip(weights, terms, strict=True)]


class SharedReward(WeightedReward):
    """The sum of terms that return every agent's part, rows (A, N); the team's reward adds the agents up."""

    def __call__(self, transition: Transition) -> tuple[Tensor, list[Tensor]]:
        """Return the team's reward (N,), and the weighted part of each term."""
        return _with_total(transition, [sum_rows(rows) for rows in self._weighted(transition)])

    def shares(self, transition: Transition) -> Tensor:
        """Return every agent's part in the team's reward, (A, N)."""
        return sum_rows(torch.stack(self._weighted(transition)))


def require_reads(name: str, made_of: Any, params: object) -> None:
    """Raise ConfigError if the module of a term or observation READS the constants of another env."""
    module = inspect.getmodule(made_of)
    kind = getattr(module, "READS", type(params))  # without READS it suits any env
    if not isinstance(params, kind):
        option = name.split()[0]
        raise ConfigError(
            f"{name} reads an env with {kind.__name__}, and this one has {type(params).__name__}; expected "
            f"the {option} of the chosen env; change {option}"
        )


def _with_total(transition: Transition, parts: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    total = torch.zeros_like(transition.terminated, dtype=torch.float32)
    for part in parts:
        total = total + part
    return total, parts
