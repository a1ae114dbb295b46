"""Policies that do not learn: a scripted pilot or random actions in place of the learner."""

from typing import Any

from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase

from navrl.agents.core.team import action_of, frames_of, group_of, in_group
from navrl.agents.networks.heads import head_for
from navrl.contracts import Env, ScriptedEnv


class ScriptedPolicy(TensorDictModuleBase):
    """A pilot that reads the env's simulator state; every env must play one episode only."""

    def __init__(self, *, env: ScriptedEnv, pilot: Any) -> None:
        super().__init__()
        self.in_keys: list[Any] = []  # it reads the simulator, not the observation
        self.out_keys = [env.action_key]
        self._env, self._pilot, self._memory = env, pilot, None

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the action of the env that is nearest to the pilot's command."""
        action, self._memory = self._env.pilot_action(self._pilot, self._memory)
        return tensordict.set(self._env.action_key, action)


class RandomPolicy(TensorDictModuleBase):
    """A uniform choice among the actions that the mask allows, for every agent."""

    def __init__(self, *, env: Env) -> None:
        super().__init__()
        self._group = group_of(env.observation_spec)
        self._head = head_for(action_of(env.action_spec, self._group))
        masked = "action_mask" in frames_of(env.observation_spec, self._group)
        self.in_keys = in_group(self._group, *(["action_mask"] if masked else []))
        self.out_keys = in_group(self._group, "action")

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Draw one action per env and agent."""
        frames = frames_of(tensordict, self._group)
        outputs = self._head.uniform.expand(*frames.shape, -1)
        frames.set("action", self._head.distribution(outputs, frames).sample())
        return tensordict
