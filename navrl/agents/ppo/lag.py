"""By which version of the policy a rollout may have been collected."""

import copy
from typing import Any

import torch
from tensordict import TensorDictBase

from navrl.agents.core.guards import require_version

_STRIDE, _MOST_SEEDS = 1_000_003, 1 << 63  # of seeds from one version to the next


class NoLag:
    """By the one that learns."""

    generator: torch.Generator | None = None  # torch's own orders the minibatches

    def collected_by(self, rollout: TensorDictBase, policy: Any) -> Any:
        """The policy with the weights that collected."""
        require_version(rollout, policy.version)
        return policy

    def remember(self, policy: Any) -> None:
        """Nothing, of a policy that is about to change."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore nothing."""


class OneVersion(NoLag):
    """By the one that learns, or by what it was before its last update.

    Stored log-probs are those of whoever collected, so the ratios, the clipping and the KL of the loss are
    against that; and the proof that it did is made with its weights, of which there is a copy here.
    """

    def __init__(self, policy: Any) -> None:
        self._former = copy.deepcopy(policy).requires_grad_(False)
        # Somebody collects meanwhile: two threads draw from one generator in no fixed order.
        orders = torch.Generator(next(policy.parameters()).device)
        self.generator = self._orders = orders
        self._seed = torch.initial_seed()

    def collected_by(self, rollout: TensorDictBase, policy: Any) -> Any:
        """The policy with the weights that collected."""
        former = self._former
        if rollout.get_non_tensor("policy_version", default=policy.version) == former.version:
            return former
        return super().collected_by(rollout, policy)

    def remember(self, policy: Any) -> None:
        """The weights of a policy that is about to change; and the order of its minibatches."""
        self._former.load_state_dict(policy.state_dict())
        self._former.version = policy.version
        self._orders.manual_seed((self._seed + policy.version * _STRIDE) % _MOST_SEEDS)

    def state_dict(self) -> dict[str, Any]:
        """The weights of the version before."""
        return {"policy": dict(self._former.state_dict()), "version": self._former.version}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of state_dict; what was saved without lag knows no version before."""
        if state:
            self._former.load_state_dict(state["policy"])
            self._former.version = state["version"]
