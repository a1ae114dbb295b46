"""Action heads: from the outputs of a network to the distribution of an action spec."""

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn import functional
from torchrl.data import Bounded, MultiCategorical, TensorSpec

from navrl.agents.networks.distributions import (
    ActionDistribution,
    BoundedAndBinary,
    MaskedMultiCategorical,
    ScaledBeta,
)
from navrl.envs.core.specs import Hybrid

_BINARY = 2  # choices of a binary column: 0, 1


class Head(nn.Module):
    """The outputs of a network and the mask of an env as an action distribution."""

    uniform: Tensor

    def __init__(self, *, uniform: Tensor, mask_size: int) -> None:
        super().__init__()
        self.outputs, self.mask_size = len(uniform), mask_size
        # The outputs under which all allowed actions are equally likely.
        self.register_buffer("uniform", uniform, persistent=False)

    def distribution(self, outputs: Tensor, frames: TensorDictBase) -> ActionDistribution:
        """Return the distribution of every row of frames; an env without a mask allows everything."""
        mask = frames.get("action_mask", None)
        if mask is None:
            mask = outputs.new_ones((*outputs.shape[:-1], self.mask_size), dtype=torch.bool)
        return self(outputs, mask)

    def forward(self, outputs: Tensor, mask: Tensor) -> ActionDistribution:
        """Return the distribution for outputs (..., outputs) and a bool mask (..., mask_size)."""
        raise TypeError(f"{type(self).__name__} lacks forward(outputs, mask) -> distribution")


class CategoricalHead(Head):
    """Choices side by side, each a logit and a column of the mask."""

    def __init__(self, *, choices: Sequence[int], device: torch.device) -> None:
        super().__init__(uniform=torch.zeros(sum(choices), device=device), mask_size=sum(choices))
        self.choices = tuple(choices)

    def forward(self, outputs: Tensor, mask: Tensor) -> MaskedMultiCategorical:
        """Return the probabilities of the allowed choices."""
        return MaskedMultiCategorical(outputs, mask, self.choices)


class BetaHead(Head):
    """Bounded columns, an alpha and a beta for each; they have no mask."""

    low: Tensor
    high: Tensor
    least = 1.0  # alpha and beta

    def __init__(self, *, low: Tensor, high: Tensor) -> None:
        super().__init__(uniform=_flat_betas(low), mask_size=0)
        self.register_buffer("low", low, persistent=False)
        self.register_buffer("high", high, persistent=False)

    def forward(self, outputs: Tensor, mask: Tensor) -> ScaledBeta:
        """Return densities with at most one peak: alpha and beta are above 1."""
        alpha, beta = (self.least + functional.softplus(outputs)).chunk(2, -1)
        return ScaledBeta(alpha, beta, self.low, self.high)


class HybridHead(Head):
    """Bounded columns as in BetaHead, then binary ones as choices between 0 and 1."""

    def __init__(self, *, low: Tensor, high: Tensor, num_binary: int) -> None:
        logits = torch.zeros(_BINARY * num_binary, device=low.device)
        super().__init__(uniform=torch.cat([_flat_betas(low), logits]), mask_size=len(logits))
        self.bounded = BetaHead(low=low, high=high)
        self.binary = CategoricalHead(choices=[_BINARY] * num_binary, device=low.device)

    def forward(self, outputs: Tensor, mask: Tensor) -> BoundedAndBinary:
        """Return Betas, and probabilities of the values that the mask allows."""
        betas, logits = torch.split(outputs, [self.bounded.outputs, self.binary.outputs], -1)
        return BoundedAndBinary(self.bounded(betas, mask), self.binary(logits, mask))


def head_for(action_spec: TensorSpec) -> Head:
    """Return the head of an action spec."""
    if isinstance(action_spec, MultiCategorical):
        return CategoricalHead(choices=action_choices(action_spec), device=action_spec.device)
    if not isinstance(action_spec, Bounded) or not action_spec.dtype.is_floating_point:
        raise ValueError(
            f"the env's action is {type(action_spec).__name__}; expected MultiCategorical, Bounded or "
            "Hybrid; choose another env or add a head to navrl/agents/networks/heads.py"
        )
    low, high = (
        bound.reshape(-1, bound.shape[-1])[0] for bound in (action_spec.low, action_spec.high)
    )
    if not torch.isfinite(high - low).all():
        raise ValueError(
            f"the env's action has the bounds {low.tolist()} and {high.tolist()}; expected finite ones; "
            "change the env's action spec"
        )
    if isinstance(action_spec, Hybrid):
        binary = action_spec.num_binary
        return HybridHead(low=low[:-binary], high=high[:-binary], num_binary=binary)
    return BetaHead(low=low, high=high)


def action_choices(action_spec: MultiCategorical) -> list[int]:
    """Return the number of choices of every column of a discrete action."""
    return [int(n) for n in action_spec.nvec.reshape(-1, action_spec.shape[-1])[0]]


def _flat_betas(low: Tensor) -> Tensor:
    """Return outputs whose softplus is 0, so that all alpha and beta are 1."""
    return torch.full((2 * len(low),), -torch.inf, device=low.device)
