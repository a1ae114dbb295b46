"""What the updates of all parts have in common: Adam, value errors, and coefficients that fall."""

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from navrl.agents.core.loss import LossTerms
from navrl.agents.core.optimizer import Descent
from navrl.agents.core.values import ValueScale
from navrl.agents.hmasd.options import Update


def descent_of(module: nn.Module, learning_rate: float, update: Update) -> Descent:
    """An optimiser of its own: the gradient of one part never scales down that of another."""
    return Descent(
        [{"params": list(module.parameters()), "lr": learning_rate}],
        final_share=update.ppo.final_learning_rate_share,
        epsilon=update.ppo.adam_epsilon,
        max_grad_norm=update.ppo.max_grad_norm,
        num_iterations=update.num_iterations,
    )


def value_loss(update: Update, value: Tensor, target: Tensor, before: Tensor) -> Tensor:
    """The mean clipped error of values, in units of who gave them."""
    terms = LossTerms(
        clip_epsilon=update.ppo.clip_epsilon,
        entropy_coef=0.0,
        critic_coef=1.0,
        huber_delta=update.ppo.huber_delta,
        value_clip=update.ppo.value_clip,
    )
    return terms.value_error(value, target, before).mean()


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
