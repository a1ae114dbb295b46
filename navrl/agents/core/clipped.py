"""The clipped objective of PPO on plain tensors, and what to know of it."""

from typing import NamedTuple

import torch
from torch import Tensor


class Clipped(NamedTuple):
    """The objective, and how far the policy has moved."""

    loss: Tensor
    kl: Tensor  # estimated, never negative
    clip_fraction: Tensor


def clipped_objective(
    log_prob: Tensor,
    before: Tensor,
    advantage: Tensor,
    clip_epsilon: float,
    weight: Tensor | float = 1.0,
) -> Clipped:
    """Means over all elements; `before` holds the log-probs with which the actions were drawn."""
    log_ratio = log_prob - before
    ratio = log_ratio.exp()
    held = ratio.clamp(1.0 - clip_epsilon, 1.0 + clip_epsilon)
    loss = -(weight * torch.minimum(ratio * advantage, held * advantage)).mean()
    with torch.no_grad():
        kl = (weight * (ratio - 1.0 - log_ratio)).mean()
        clip_fraction = (weight * ((ratio - 1.0).abs() > clip_epsilon)).mean()
    return Clipped(loss, kl, clip_fraction)


def standardised(advantage: Tensor, least_deviation: float) -> Tensor:
    """Advantages of mean 0, and of deviation 1 unless theirs is below `least_deviation`."""
    centred = advantage - advantage.mean()
    return centred / centred.square().mean().sqrt().clamp_min(least_deviation)


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """1 - residual variance over target variance; 0 where the targets are all alike."""
    whole = target.var(correction=0)
    left = (target - value).var(correction=0)
    return torch.where(whole > 0.0, 1.0 - left / whole, 0.0)
