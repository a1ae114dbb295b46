"""What PPO minimises: TorchRL's ClipPPOLoss without synchronisations, and blind to the dead."""

from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs.utils import ExplorationType
from torchrl.objectives import ClipPPOLoss

from navrl.agents.core.guards import require_positive
from navrl.agents.core.objective import explained_variance, moments, value_error
from navrl.agents.core.team import ALIVE

_OPTIONS: dict[str, Any] = {
    "functional": False,  # ordinary modules: hooks, DDP and checkpoints work
    "normalize_advantage": True,
    "log_explained_variance": False,  # per minibatch; we log it once per rollout
}
_MEANS = ("entropy", "kl_approx", "clip_fraction")  # which the stock class takes over all frames
_LEAST_SPREAD = 1e-6  # of advantages, as in the stock class


class LossTerms(NamedTuple):
    """What YAML says of the loss."""

    clip_epsilon: float
    entropy_coef: float
    critic_coef: float
    huber_delta: float | None  # None: all errors of values count squared
    value_clip: float | None

    def checked(self) -> "LossTerms":
        """Itself, if it makes sense."""
        require_positive(value_clip=self.value_clip, huber_delta=self.huber_delta)
        return self

    def value_error(self, value: Tensor, target: Tensor, before: Tensor) -> Tensor:
        """Of every frame on its own; `before` is the value with which the iteration began."""
        limits = {"value_clip": self.value_clip, "huber_delta": self.huber_delta}
        return value_error(value, target, before, **limits)


class PPOLoss(ClipPPOLoss):
    """ClipPPOLoss whose means are over the living, where frames have a leaf `alive` (B, 1).

    TorchRL takes its three losses over the frames of loss_mask_key. The rest is here: the scale of
    advantages and the metrics. Entropy and value loss are our own, because the stock ones ask the host:
    whether the entropy is finite, and whether to clip values.
    """

    # Nothing is drawn in here, but TorchRL says so in a flag of the whole process: with its own choice, a
    # policy that collects in another thread meanwhile would take the most probable actions.
    deterministic_sampling_mode = ExplorationType.RANDOM

    def __init__(self, policy: Any, critic: Any, terms: LossTerms, device: torch.device) -> None:
        super().__init__(
            policy,
            critic,
            clip_epsilon=terms.clip_epsilon,
            entropy_coeff=terms.entropy_coef,
            critic_coeff=terms.critic_coef,
            device=device,
            **_OPTIONS,
        )
        self.loss_mask_key, self._terms = ALIVE, terms

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The losses and metrics of a minibatch."""
        out = super().forward(self.actor_network.trunk.with_shared_features(tensordict))
        alive = tensordict.get(ALIVE, None)
        if alive is not None:
            living = alive.sum().clamp_min(1)
            for name in _MEANS:  # in which the dead are zeros by now
                out.set(name, out.get(name) * (alive.numel() / living))
        return out

    def _log_weight(self, tensordict: TensorDictBase, adv_shape: torch.Size) -> tuple[Any, ...]:
        """Log-ratio, distribution and KL per frame; what is not in it, no metric can see."""
        log_weight, dist, kl, correction = super()._log_weight(tensordict, adv_shape)
        alive = tensordict.get(ALIVE, None)
        if alive is None:
            return log_weight, dist, kl, correction
        living = _Living(dist, alive.squeeze(-1))
        return torch.where(alive, log_weight, 0.0), living, torch.where(alive, kl, 0.0), correction

    def loss_critic(self, tensordict: TensorDictBase) -> tuple[Any, ...]:
        """The value loss of every frame, and nothing for the two metrics that stock could add."""
        before, target = (tensordict.get(key) for key in ("state_value", "value_target"))
        value = self.critic_network(tensordict).get("state_value")
        return self.critic_coeff * self._terms.value_error(value, target, before), None, None

    def _get_entropy(self, dist: Any, adv_shape: torch.Size) -> Tensor:
        return dist.entropy().unsqueeze(-1)

    def standardised(self, minibatch: TensorDictBase) -> Tensor:
        """The advantages of a minibatch, minus their mean and over their deviation."""
        return self._standardize_advantage(minibatch.get("advantage"), minibatch)

    def _standardize_advantage(self, advantage: Tensor, tensordict: TensorDictBase) -> Tensor:
        alive = tensordict.get(ALIVE, None)
        if alive is None:
            return super()._standardize_advantage(advantage, tensordict)
        mean, variance = moments(advantage, alive)
        return (advantage - mean) / variance.sqrt().clamp_min(_LEAST_SPREAD)


class _Living:
    """All that the loss still asks a distribution, after the log-ratio: the entropy, of the living."""

    def __init__(self, dist: Any, alive: Tensor) -> None:
        self._dist, self._alive = dist, alive

    def entropy(self) -> Tensor:
        return torch.where(self._alive, self._dist.entropy(), 0.0)


def explained(batch: TensorDictBase) -> Tensor:
    """1 - residual variance over target variance of the critic on the frames of the living, as a row."""
    target, value, alive = (batch.get(key, None) for key in ("value_target", "state_value", ALIVE))
    return explained_variance(value, target, alive).unsqueeze(0)
