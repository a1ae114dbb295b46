"""Policies that do not learn: any scripted pilot, or random play, in the learner's seat."""

from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase

from navrl.agents.distributions import MaskedMultiCategorical
from navrl.agents.networks import action_choices


class ScriptedPolicy(TensorDictModuleBase):
    """A pilot that reads the env's simulator state; every env must play one episode only."""

    def __init__(self, *, env: Any, pilot: Any) -> None:
        super().__init__()
        self.in_keys, self.out_keys = ["action_mask"], ["action"]
        self._env, self._pilot, self._memory = env, pilot, None

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The pilot's command as the nearest action of the env."""
        action, self._memory = self._env.pilot_action(self._pilot, self._memory)
        return tensordict.set("action", action)


class RandomPolicy(TensorDictModuleBase):
    """Uniform over the actions that the mask allows."""

    def __init__(self, *, env: Any) -> None:
        super().__init__()
        self.in_keys, self.out_keys = ["action_mask"], ["action"]
        self._choices = action_choices(env.action_spec)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """One draw per env."""
        mask = tensordict.get("action_mask")
        logits = torch.zeros(mask.shape, device=mask.device)
        return tensordict.set(
            "action", MaskedMultiCategorical(logits, mask, self._choices).sample()
        )
