"""Scenarios of the simulator VMAS under the keys of our team envs, as an independent check of agents.

Agents of one kind are the group "agents"; each has a reward of its own, the team's reward is their mean, and
a centralised critic observes what all agents observe.
"""

import contextlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Bounded, Unbounded
from torchrl.envs import EnvBase
from torchrl.envs.libs.vmas import VmasEnv
from torchrl.envs.utils import MarlGroupMapType

from navrl.config.checks import require_choice, require_whole
from navrl.envs.core import specs

_LEAF = "features"  # the whole observation of an agent
_INSTALL = "env=vmas needs VMAS, which is not installed; pip install 'navrl[interop]'"


class VmasTeamEnv(EnvBase):
    """N simulations of one scenario, cut after `horizon` steps."""

    scripted_group = None  # nothing but a policy can act
    episode_keys = ("return", "length")
    rate_names = ()
    counted_when: Mapping[str, str] = MappingProxyType({})  # statistics are means over all episodes
    curriculum_advice = ""

    def __init__(
        self,
        *,
        name: str,
        headline: Mapping[str, str],
        objective: str,
        vmas_scenario: str,
        options: Mapping[str, Any],
        horizon: int,
        num_envs: int,
        device: torch.device | str,
        seed: int,
        first_env_id: int = 0,
    ) -> None:
        self.name, self.headline, self.objective = name, dict(headline), objective
        require_choice("env.objective", objective, self.episode_keys)
        require_whole("env.horizon", horizon, 1)
        require_whole("num_envs", num_envs, 1)
        super().__init__(device=torch.device(device), batch_size=[num_envs])
        self._horizon, self._first_env_id = horizon, first_env_id
        self._inner = _built(vmas_scenario, options, num_envs, self.device)
        self._random_state: list[Any] = [*self._global_random_state]
        self._set_seed(seed)
        self._totals = torch.zeros(num_envs, 2, device=self.device)  # return, length
        self._declare()

    def _declare(self) -> None:
        inner, shape, device = self._inner, self.batch_size, self.device
        seen = inner.full_observation_spec["agents", "observation"].shape[1:]
        move = inner.full_action_spec["agents", "action"]
        action = Bounded(
            low=move.low.float(), high=move.high.float(), shape=move.shape, device=device
        )
        leaves = {_LEAF: seen[1:]}
        self.observation_spec, self.action_spec = specs.team_specs(leaves, seen.numel(), action)
        self.observation_spec["episode"] = Unbounded((*shape, 2), device=device)
        self.reward_spec = specs.reward_spec(shape, seen[0], device)
        self.full_done_spec = specs.done_spec(shape, device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        with self._own_random_state():
            stepped = self._inner._step(tensordict)
        own = stepped.get(("agents", "reward"))
        reward = own.mean(1)
        self._totals = self._totals + torch.cat([reward, torch.ones_like(reward)], -1)
        terminated = stepped.get("terminated")
        truncated = (self._totals[:, 1:] >= self._horizon) & ~terminated
        frame = self._renamed(stepped)
        frame.get("agents").set("reward", own)
        frame.update({"reward": reward, "terminated": terminated, "truncated": truncated})
        return frame.set("done", terminated | truncated)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        everyone = torch.ones(*self.batch_size, 1, dtype=torch.bool, device=self.device)
        chosen = everyone if mask is None else mask.reshape(everyone.shape)
        request = TensorDict({"_reset": chosen}, batch_size=self.batch_size, device=self.device)
        with self._own_random_state():
            begun = self._inner._reset(request)
        self._totals = torch.where(chosen, 0.0, self._totals)
        frame = self._renamed(begun)
        for flag in ("done", "terminated", "truncated"):
            frame.set(flag, torch.zeros_like(everyone))
        return frame

    def _renamed(self, frame: TensorDictBase) -> TensorDict:
        """Return the observations of all agents under our keys."""
        seen: Tensor = frame.get(("agents", "observation")).float()
        group = seen.shape[:2]
        observation = TensorDict({_LEAF: seen}, batch_size=group)
        agents = TensorDict({"observation": observation}, batch_size=group)
        leaves = {"agents": agents, "state": seen.flatten(1), "episode": self._totals}
        return TensorDict(leaves, batch_size=self.batch_size, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        """Play the episodes of this seed from the next reset on."""
        with self._own_random_state():
            self._inner._env.seed(int(seed or 0) + self._first_env_id)

    @property
    def _global_random_state(self) -> list[Any]:
        """Return the states of the generators that VMAS shares among all simulations of a process."""
        shared: list[Any] = self._inner._env.vmas_random_state
        return shared

    @contextlib.contextmanager
    def _own_random_state(self) -> Iterator[None]:
        """Use generators of this env inside the context, so that an evaluation does not change training."""
        shared = self._global_random_state
        others, shared[:] = [*shared], self._random_state
        try:
            yield
        finally:
            self._random_state, shared[:] = [*shared], others

    def runtime_state(self) -> dict[str, Any]:
        """Return nothing, because the simulator cannot be saved."""
        return {}

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """Raise, because the simulator cannot be restored."""
        raise ValueError(
            "a run in env=vmas cannot be resumed, because its simulator cannot be saved; expected another "
            "env; start a new run, or evaluate this one"
        )


def _built(scenario: str, options: Mapping[str, Any], num_envs: int, device: Any) -> VmasEnv:
    """Build TorchRL's wrapper around the scenario."""
    try:
        import vmas
    except ImportError as error:
        raise ValueError(_INSTALL) from error
    known = (*vmas.scenarios, *vmas.mpe_scenarios, *vmas.debug_scenarios)
    require_choice("env.vmas_scenario", scenario, sorted(known))
    inner = VmasEnv(
        scenario=scenario,
        num_envs=num_envs,
        device=device,
        continuous_actions=True,
        max_steps=None,
        group_map=MarlGroupMapType.ALL_IN_ONE_GROUP,
        scenario_kwargs=dict(options),
    )
    if inner.het_specs:
        raise ValueError(
            f"env.vmas_scenario = {scenario!r} has agents of several kinds; expected agents with equal "
            "observations and actions; change env.vmas_scenario or env.options"
        )
    return inner
