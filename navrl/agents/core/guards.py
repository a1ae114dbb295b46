"""Checks around an update: replayed log-probabilities, policy versions, gradients that are not finite."""

import warnings

import torch
from tensordict import TensorDictBase

from navrl.agents.networks.memory import HIDDEN

# What log-probs depend on; not every env has a mask, nor every actor a memory.
REPLAYED = ("observation", "action_mask", "action", "action_log_prob", HIDDEN)
_ROWS_NAMED = 8
_SUMS = "episode"


class TrainingDivergedError(RuntimeError):
    """The error of too many iterations in a row with gradients that are not finite."""


class ForeignRolloutError(RuntimeError):
    """The error of a rollout that another policy has collected."""


def replay_slices(rollout: TensorDictBase) -> TensorDictBase:
    """Return the first, a middle and the last step of every row: changed weights show in one of them."""
    steps = rollout.shape[1]
    instants = sorted({0, steps // 2, steps - 1})
    chosen = rollout.select(*REPLAYED, strict=False)
    return torch.stack([chosen[:, t] for t in instants], 1)


def require_version(rollout: TensorDictBase, version: int) -> None:
    """Raise about a rollout of another policy version."""
    found = rollout.get_non_tensor("policy_version", default=version)
    if found != version:
        raise ForeignRolloutError(
            f"the rollout carries policy version {found}; expected {version}: "
            "on-policy learning uses every rollout once, with the policy that collected it"
        )


class UpdateGuard:
    """The checks at the end of an update: it refuses foreign rollouts and counts broken iterations."""

    def __init__(self, replay_tolerance: float, max_skipped_updates: int) -> None:
        self.replay_tolerance, self._max_skipped_updates = replay_tolerance, max_skipped_updates
        self.skipped_in_a_row = 0  # iterations whose gradients were not finite

    def check(
        self,
        rollout: TensorDictBase,
        *,
        replay_error: float,
        skipped_steps: float,
        stale_frames: float = 0.0,
    ) -> None:
        """Raise about a rollout of another policy, which has changed nothing so far; count skipped steps."""
        if replay_error > self.replay_tolerance or stale_frames > 0:
            stale = f", and {stale_frames:.0f} steps have skills of another version"
            raise ForeignRolloutError(
                "the rollout was not collected by this policy: log-probs differ by "
                f"{replay_error:.3g}, expected at most {self.replay_tolerance:g}"
                f"{stale if stale_frames > 0 else ''}; nothing may change weights while a rollout is "
                "collected (or raise agent.replay_tolerance)"
            )
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped_steps > 0 else 0
        if skipped_steps > 0:
            self._warn(rollout)

    def _warn(self, rollout: TensorDictBase) -> None:
        """Warn which tensor is not finite; raise after too many such iterations in a row."""
        found = _culprit(rollout)
        if self.skipped_in_a_row >= self._max_skipped_updates:
            raise TrainingDivergedError(
                f"gradients were not finite in {self.skipped_in_a_row} iterations in a row ({found}); "
                f"expected fewer than {self._max_skipped_updates}; lower the learning rate, or look at the "
                "named tensor"
            )
        warnings.warn(f"skipped gradient steps that were not finite ({found})", stacklevel=4)


def _culprit(rollout: TensorDictBase) -> str:
    """Return a description of the first tensor that is not finite."""
    # Sums of an episode last: they are broken by the reward that they add up.
    entries = sorted(
        rollout.items(include_nested=True, leaves_only=True), key=lambda entry: _SUMS in entry[0]
    )
    for key, value in entries:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        bad = ~value.isfinite()
        if bad.any():
            rows = bad.reshape(bad.shape[0], -1).any(-1).nonzero().flatten().tolist()
            more = ", ..." if len(rows) > _ROWS_NAMED else ""
            name = "/".join(key) if isinstance(key, tuple) else key
            named = ", ".join(str(row) for row in rows[:_ROWS_NAMED])
            return f"{name!r} of the rollout in env rows {named}{more}"
    return "the rollout is finite, so the loss or the weights overflowed"
