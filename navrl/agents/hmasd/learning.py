"""What the updates of all parts have in common: Adam, value errors, and coefficients that fall."""

from typing import NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from navrl.agents.core.objective import clipped_objective, value_error
from navrl.agents.core.optimizer import Optimizer
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.hmasd.options import Update


def optimizer_of(module: nn.Module, learning_rate: float, update: Update) -> Optimizer:
    """An optimiser of its own: the gradient of one part never scales down that of another."""
    return Optimizer(
        [{"params": list(module.parameters()), "lr": learning_rate}],
        final_share=update.ppo.final_learning_rate_share,
        epsilon=update.ppo.adam_epsilon,
        max_grad_norm=update.ppo.max_grad_norm,
        num_iterations=update.num_iterations,
    )


class PolicyTerms(NamedTuple):
    """Means over all samples."""

    loss: Tensor
    kl: Tensor  # estimated, never negative
    clip_fraction: Tensor


def policy_terms(
    log_ratio: Tensor, advantage: Tensor, clip_epsilon: float, weight: Tensor | float = 1.0
) -> PolicyTerms:
    """Compute the clipped objective, and how far the policy has moved."""
    clipped = clipped_objective(log_ratio, advantage, clip_epsilon)
    with torch.no_grad():
        kl = (weight * (clipped.ratio - 1.0 - log_ratio)).mean()
        clip_fraction = (weight * clipped.clipped).mean()
    return PolicyTerms((weight * clipped.loss).mean(), kl, clip_fraction)


def standardised(advantage: Tensor, least_deviation: float) -> Tensor:
    """Return advantages of mean 0, and of deviation 1 unless theirs is below `least_deviation`."""
    centred = advantage - advantage.mean()
    return centred / centred.square().mean().sqrt().clamp_min(least_deviation)


def value_loss(update: Update, value: Tensor, target: Tensor, before: Tensor) -> Tensor:
    """The mean clipped error of values, in units of who gave them."""
    limits = {"value_clip": update.ppo.value_clip, "huber_delta": update.ppo.huber_delta}
    return value_error(value, target, before, **limits).mean()


def in_units(
    scale: ValueScale, value: Tensor, target: Tensor, last: nn.Linear, frozen: Tensor
) -> tuple[Tensor, Tensor]:
    """Values and their targets in units of the network with this last layer, which follows the scale."""
    batch = TensorDict({"state_value": value, "value_target": target}, [])
    scale.learn(batch, last, frozen)
    return batch.get("state_value"), batch.get("value_target")


def entropy_share(update: Update, version: int) -> float:
    """What is left of entropy coefficients after so many updates; on a line to the final share.

    With the learning rate: else what is nearly certain is drawn apart again and again, and the most
    probable actions change from round to round.
    """
    done = min(version / max(update.num_iterations, 1), 1.0)
    return 1.0 - (1.0 - update.ppo.final_entropy_share) * done


def largest_difference(one: Tensor, other: Tensor) -> Tensor:
    """0 where there is nothing to compare."""
    if one.numel() == 0:
        return torch.zeros((), device=one.device)
    return (one - other).abs().max()
