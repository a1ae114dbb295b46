"""A reward is a sum of named terms; every term is logged under its name."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Transition(NamedTuple):
    """One step of N envs, as the simulator knows it."""

    params: Any
    before: Any
    after: Any
    events: Any
    terminated: Tensor  # bool (N,)


Term = Callable[[Transition], Tensor]


class WeightedReward:
    """Calls every term and weighs it."""

    def __init__(self, *, terms: Mapping[str, Term], weights: Mapping[str, float]) -> None:
        if set(terms) != set(weights):
            raise ValueError(
                f"reward.weights names {sorted(weights)}; expected exactly the terms {sorted(terms)}; "
                "change reward.weights"
            )
        self.terms = dict(terms)
        self.weights = {name: float(weights[name]) for name in self.terms}

    @property
    def names(self) -> tuple[str, ...]:
        """Term names, in the order of the parts."""
        return tuple(self.terms)

    def __call__(self, transition: Transition) -> tuple[Tensor, list[Tensor]]:
        """The reward (N,), and the weighted part of each term."""
        parts = [self.weights[name] * term(transition) for name, term in self.terms.items()]
        total = torch.zeros_like(transition.terminated, dtype=torch.float32)
        for part in parts:
            total = total + part
        return total, parts
