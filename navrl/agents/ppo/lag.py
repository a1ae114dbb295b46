"""Policy lag: the versions of the policy whose rollouts may be learned from."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.agents.core.guards import ForeignRolloutError, require_version
from navrl.agents.core.team import ALIVE
from navrl.storage.schema import ANYTHING, Either

LogProbs = Callable[[TensorDictBase], Tensor]  # of the stored actions, by the policy that learns

_STRIDE, _MOST_SEEDS = 1_000_003, 1 << 63  # of seeds from one version to the next


class NoLag:
    """Only the version that learns may have collected."""

    generator: torch.Generator | None = None  # torch's own orders the minibatches
    metric_names: tuple[str, ...] = ()
    statistics: tuple[Tensor, ...] = ()  # scalars of the last rollout, one for each name

    def collected_by(self, rollout: TensorDictBase, policy: Any) -> Any:
        """Return the policy with the weights that collected the rollout, None where they are gone."""
        require_version(rollout, policy.version)
        return policy

    def with_advantages(
        self, frames: TensorDictBase, gae: Any, log_probs: LogProbs
    ) -> TensorDictBase:
        """Return frames (N, T) of values with advantages and value targets: those of GAE."""
        found: TensorDictBase = gae(frames)
        return found

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


class Correction(NamedTuple):
    """The limits of V-trace."""

    max_lag: int  # updates between the policy that collected and the one that learns
    rho_clip: float  # largest weight of a temporal difference
    c_clip: float  # largest weight by which it counts for the steps before


class VTrace(NoLag):
    """Any of the last versions may have collected: V-trace corrects advantages and value targets.

    The importance ratios of the policy that learns to the one that collected weigh temporal differences
    (Espeholt et al. 2018, IMPALA; with lambda as in their remark 2). Advantages are those of GAE times the
    first weight, so that with ratios of 1 they and the value targets are GAE's. TorchRL's function has no
    lambda: it would have the variance of whole returns. Stored log-probs are replaced by those of the policy
    that learns, to which PPO's ratios, clipping and KL then refer.
    """

    metric_names = ("sync/mean_ratio", "sync/mean_weight")

    def __init__(self, limits: Correction) -> None:
        self._limits = limits

    def collected_by(self, rollout: TensorDictBase, policy: Any) -> Any:
        """Return the policy if it has collected the rollout, None if an earlier version has."""
        newest, most = policy.version, self._limits.max_lag
        found = rollout.get_non_tensor("policy_version", default=newest)
        if not newest - most <= found <= newest:
            raise ForeignRolloutError(
                f"the rollout carries policy version {found}; expected {newest}, or at most {most} before"
            )
        return policy if found == newest else None

    def with_advantages(
        self, frames: TensorDictBase, gae: Any, log_probs: LogProbs
    ) -> TensorDictBase:
        """Return frames (N, T) of values with corrected advantages, value targets and new log-probs."""
        now, alive = log_probs(frames), frames.get(ALIVE, None)
        ratio = (now - frames.get("action_log_prob")).unsqueeze(-1).exp()
        if alive is not None:  # what the dead would do counts for nothing
            ratio = torch.where(alive, ratio, 1.0)
        advantage, target = vtrace(frames, ratio, float(gae.gamma), float(gae.lmbda), self._limits)
        weight = ratio.clamp_max(self._limits.rho_clip)
        self.statistics = (ratio.mean(), weight.mean())
        advantage = with_weighted_mean(advantage, weight, alive)
        frames.set("action_log_prob", now)
        return frames.set("advantage", advantage).set("value_target", target)


def with_weighted_mean(advantage: Tensor, weight: Tensor, alive: Tensor | None) -> Tensor:
    """Return weighed advantages, changed so that subtracting their mean weighs it too.

    Every minibatch subtracts its mean from all frames alike. From weighed advantages that would teach
    to repeat, or to avoid, what the older policy did, by how wrong the critic is on average. Weights of
    1 change nothing.
    """
    living = torch.ones_like(advantage) if alive is None else alive.float()
    mean = (living * advantage).sum() / (living * weight).sum().clamp_min(1e-6)
    return advantage - mean * (weight - 1.0)


def vtrace(
    frames: TensorDictBase, ratio: Tensor, discount: float, trace: float, limits: Correction
) -> tuple[Tensor, Tensor]:
    """Return advantages and value targets (N, T, 1) for the policy that is `ratio` to the one that collected.

    A trace is cut by `done`, and only `terminated` means that nothing follows.
    """
    value, ahead = frames.get("state_value"), frames.get("next")
    follows = discount * (~ahead.get("terminated")).float()
    difference = ahead.get("reward") + follows * ahead.get("state_value") - value
    rho, c = ratio.clamp_max(limits.rho_clip), ratio.clamp_max(limits.c_clip)
    passed_on = discount * trace * (~ahead.get("done")).float()
    correction = torch.zeros_like(value[:, 0])  # of the value of the step after
    advantages, corrections = [], []
    for t in reversed(range(value.shape[1])):
        later = passed_on[:, t] * correction
        advantages.append(rho[:, t] * (difference[:, t] + later))
        correction = rho[:, t] * difference[:, t] + c[:, t] * later
        corrections.append(correction)
    return torch.stack(advantages[::-1], 1), value + torch.stack(corrections[::-1], 1)
