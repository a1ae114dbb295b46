"""A reward is a sum of named terms; every term is logged under its name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from navrl.config.checks import ConfigError
from navrl.envs.core.reductions import added
from navrl.envs.core.weights import Coefficients


class Transition(NamedTuple):
    """One step of N envs, as the simulator knows it."""

    params: Any
    before: Any
    after: Any
    events: Any
    terminated: Tensor  # bool (N,), the fight is over
    truncated: Tensor  # bool (N,), cut before it was over; never where terminated
    team: int = 0  # whose reward it is


Term = Callable[[Transition], Tensor]


@runtime_checkable
class Prepared(Protocol):
    """A term that holds tensors, made once the simulator and the device are known."""

    def prepare(self, params: Any, device: torch.device | str) -> None:
        """Make them."""


class WeightedReward:
    """Calls every term and weighs it."""

    def __init__(self, *, terms: Mapping[str, Term], weights: Mapping[str, float]) -> None:
        self.terms = dict(terms)
        self.weights = Coefficients(names=self.terms, weights=weights, setting="reward.weights")

    @property
    def names(self) -> tuple[str, ...]:
        """Term names, in the order of the parts."""
        return self.weights.names

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Weigh the terms like this from now on; one number for every term."""
        self.weights.set(weights)

    def prepare(self, params: Any, device: torch.device | str) -> None:
        """Live on this device, and let the terms make what they hold."""
        self.weights.to(device)
        for name, term in self.terms.items():
            require_reads(f"reward term '{name}'", getattr(term, "func", term), params)
            if isinstance(term, Prepared):
                term.prepare(params, device)

    def __call__(self, transition: Transition) -> tuple[Tensor, list[Tensor]]:
        """The reward (N,), and the weighted part of each term."""
        return _with_total(transition, self._weighted(transition))

    def _weighted(self, transition: Transition) -> list[Tensor]:
        weights = self.weights.tensor.unbind()
        terms = self.terms.values()
        return [weight * term(transition) for weight, term in zip(weights, terms, strict=True)]


class SharedReward(WeightedReward):
    """Terms that give every agent's part, rows (A, N); the team's reward is their sum."""

    def __call__(self, transition: Transition) -> tuple[Tensor, list[Tensor]]:
        """The team's reward (N,), and the weighted part of each term."""
        return _with_total(transition, [added(rows) for rows in self._weighted(transition)])

    def shares(self, transition: Transition) -> Tensor:
        """Every agent's part in the team's reward, (A, N)."""
        return added(torch.stack(self._weighted(transition)))


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
