"""Policy lag: the versions of the policy whose rollouts may be learned from."""

import copy
from typing import Any

import torch
from tensordict import TensorDictBase

from navrl.agents.core.guards import require_version
from navrl.storage.schema import ANYTHING, Either

_STRIDE, _MOST_SEEDS = 1_000_003, 1 << 63  # of seeds from one version to the next


class NoLag:
    """Only the version that learns may have collected."""

    generator: torch.Generator | None = None  # torch's own orders the minibatches

    def collected_by(self, rollout: TensorDictBase, policy: Any) -> Any:
        """Return the policy with the weights that collected the rollout."""
        require_version(rollout, policy.version)
        return policy

    def remember(self, policy: Any) -> None:
        """Keep nothing of a policy that is about to change."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def schema(self) -> Any:
        """Return what a state to load is compared with: of a run that lagged it is not needed."""
        return ANYTHING

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore nothing."""


class OneVersion(NoLag):
    """The version that learns or the one before its last update may have collected.

    Stored log-probs are those of the version that collected, so ratios, clipping and KL are relative to it.
    Its log-probs are recomputed for the replay check with a copy of its weights.
    """

    def __init__(self, policy: Any) -> None:
        self._former = copy.deepcopy(policy).requires_grad_(False)
        # A collector samples meanwhile: two threads draw from one generator in no fixed order.
        orders = torch.Generator(next(policy.parameters()).device)
        self.generator = self._orders = orders
        self._seed = torch.initial_seed()

    def collected_by(self, rollout: TensorDictBase, policy: Any) -> Any:
        """Return the policy with the weights that collected the rollout."""
        former = self._former
        if rollout.get_non_tensor("policy_version", default=policy.version) == former.version:
            return former
        return super().collected_by(rollout, policy)

    def remember(self, policy: Any) -> None:
        """Copy the weights of a policy that is about to change, and seed the order of its minibatches."""
        self._former.load_state_dict(policy.state_dict())
        self._former.version = policy.version
        self._orders.manual_seed((self._seed + policy.version * _STRIDE) % _MOST_SEEDS)

    def state_dict(self) -> dict[str, Any]:
        """Return the weights of the version before."""
        return {"policy": dict(self._former.state_dict()), "version": self._former.version}

    def schema(self) -> Any:
        """Return what a state to load is compared with: nothing, or a version before."""
        return Either({}, self.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict returned; a state without lag has no version before."""
        if state:
            self._former.load_state_dict(state["policy"])
            self._former.version = state["version"]
