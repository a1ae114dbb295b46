"""The optimizer and the loss terms that the updates of all levels share."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from navrl.agents.core.gradients import Loss, LossGradients, fit
from navrl.agents.core.objective import clipped_objective, value_error
from navrl.agents.core.optimizer import Optimizer
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.hmasd.options import PPOOptions
from navrl.ranks import Ranks


class PolicyTerms(NamedTuple):
    """The clipped objective and how far the policy has moved, as means over all samples."""

    loss: Tensor
    kl: Tensor  # estimated, never negative
    clip_fraction: Tensor


@dataclass
class Update:
    """The settings of all updates."""

    ppo: PPOOptions
    discount: float
    num_iterations: int
    compile_mode: str | bool
    ranks: Ranks = field(default_factory=Ranks)

    def optimizer(self, module: nn.Module, learning_rate: float) -> Optimizer:
        """Return an optimizer of one network, so that no gradient scales down that of another network."""
        return Optimizer(
            [{"params": list(module.parameters()), "lr": learning_rate}],
            final_share=self.ppo.final_learning_rate_share,
            epsilon=self.ppo.adam_epsilon,
            max_grad_norm=self.ppo.max_grad_norm,
            num_iterations=self.num_iterations,
        )

    def gradients(self, loss: Loss, module: nn.Module) -> LossGradients:
        """Return the function from batches to gradients of a loss of one network."""
        return LossGradients(loss, list(module.parameters()), self.compile_mode)

    def entropy_share(self, version: int) -> float:
        """Return the share of the entropy coefficients after `version` updates, on a line to the final one.

        It falls with the learning rate: otherwise probabilities near 1 are drawn apart again and again, and
        the most probable actions change from iteration to iteration.
        """
        done = min(version / max(self.num_iterations, 1), 1.0)
        return 1.0 - (1.0 - self.ppo.final_entropy_share) * done

    def fit(
        self,
        optimizer: Optimizer,
        gradients: LossGradients,
        batch: Any,
        stopped: Tensor,
        *,
        num_epochs: int,
        num_minibatches: int = 1,
    ) -> tuple[Tensor, ...]:
        """Take all gradient steps; return means of the broken share, the gradient norm and the metrics."""
        means = fit(
            optimizer,
            gradients,
            batch,
            num_epochs=num_epochs,
            num_minibatches=num_minibatches,
            parts=self.ppo.accumulate,
            stopped=stopped,
            ranks=self.ranks,
        )
        return means.unbind()

    def policy_terms(
        self, log_ratio: Tensor, advantage: Tensor, weight: Tensor | float = 1.0
    ) -> PolicyTerms:
        """Compute the clipped objective, and how far the policy has moved."""
        clipped = clipped_objective(log_ratio, advantage, self.ppo.clip_epsilon)
        with torch.no_grad():
            kl = (weight * (clipped.ratio - 1.0 - log_ratio)).mean()
            clip_fraction = (weight * clipped.clipped).mean()
        return PolicyTerms((weight * clipped.loss).mean(), kl, clip_fraction)

    def value_loss(self, value: Tensor, target: Tensor, old_value: Tensor) -> Tensor:
        """Return the mean clipped error of values, in the units of their network."""
        limits = {"value_clip": self.ppo.value_clip, "huber_delta": self.ppo.huber_delta}
        return value_error(value, target, old_value, **limits).mean()


def standardised(advantage: Tensor, least_deviation: float) -> Tensor:
    """Return advantages of mean 0, and of deviation 1 unless theirs is below `least_deviation`."""
    centred = advantage - advantage.mean()
    return centred / centred.square().mean().sqrt().clamp_min(least_deviation)


def in_network_units(
    scale: ValueScale, value: Tensor, target: Tensor, last: nn.Linear, frozen: Tensor
) -> tuple[Tensor, Tensor]:
    """Let the scale and the network's last layer follow the targets; return both in the network's units."""
    batch = TensorDict({"state_value": value, "value_target": target}, [])
    scale.learn(batch, last, frozen)
    return batch.get("state_value"), batch.get("value_target")


def largest_difference(first: Tensor, second: Tensor) -> Tensor:
    """Return the largest absolute difference, 0 where there is nothing to compare."""
    if first.numel() == 0:
        return torch.zeros((), device=first.device)
    return (first - second).abs().max()
