"""Scenarios of VMAS, a simulator from elsewhere, under the keys of our teams: an outside check of agents.

Its agents, if they are of one kind, are the group "agents"; each is paid on its own, the team gets their
mean, and a centralised critic is told what everybody is told.
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

_LEAF = "told"  # all that an agent is told
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
        self._luck: list[Any] = [*self._shared_luck]
        self._set_seed(seed)
        self._totals = torch.zeros(num_envs, 2, device=self.device)  # return, length
        self._declare()

    def _declare(self) -> None:
        inner, shape, device = self._inner, self.batch_size, self.device
        seen = inner.full_observation_spec["agents", "observation"].shape[1:]
        self.observation_spec = specs.team_observation_spec(
            {_LEAF: seen[1:]},
            num_envs=shape[0],
            num_agents=seen[0],
            state_size=seen.numel(),
            device=device,
        )
        self.observation_spec["episode"] = Unbounded((*shape, 2), device=device)
        move = inner.full_action_spec["agents", "action"]
        bounded = Bounded(
            low=move.low.float(), high=move.high.float(), shape=move.shape, device=device
        )
        self.action_spec = specs.team_action_spec(bounded)
        self.reward_spec = specs.reward_spec(shape, seen[0], device)
        self.full_done_spec = specs.done_spec(shape, device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        with self._own_luck():
            stepped = self._inner._step(tensordict)
        own = stepped.get(("agents", "reward"))
        reward = own.mean(1)
        self._totals = self._totals + torch.cat([reward, torch.ones_like(reward)], -1)
        terminated = stepped.get("terminated")
        truncated = (self._totals[:, 1:] >= self._horizon) & ~terminated
        told = self._told(stepped)
        told.get("agents").set("reward", own)
        told.update({"reward": reward, "terminated": terminated, "truncated": truncated})
        return told.set("done", terminated | truncated)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        everyone = torch.ones(*self.batch_size, 1, dtype=torch.bool, device=self.device)
        chosen = everyone if mask is None else mask.reshape(everyone.shape)
        asked = TensorDict({"_reset": chosen}, batch_size=self.batch_size, device=self.device)
        with self._own_luck():
            begun = self._inner._reset(asked)
        self._totals = torch.where(chosen, 0.0, self._totals)
        told = self._told(begun)
        for flag in ("done", "terminated", "truncated"):
            told.set(flag, torch.zeros_like(everyone))
        return told

    def _told(self, frame: TensorDictBase) -> TensorDict:
        """What everybody is told, under our keys."""
        seen: Tensor = frame.get(("agents", "observation")).float()
        group = seen.shape[:2]
        observation = TensorDict({_LEAF: seen}, batch_size=group)
        agents = TensorDict({"observation": observation}, batch_size=group)
        leaves = {"agents": agents, "state": seen.flatten(1), "episode": self._totals}
        return TensorDict(leaves, batch_size=self.batch_size, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        """Other episodes from the next reset on."""
        with self._own_luck():
            self._inner._env.seed(int(seed or 0) + self._first_env_id)

    @property
    def _shared_luck(self) -> list[Any]:
        """The states of random number generators that VMAS has for all simulations of a process."""
        shared: list[Any] = self._inner._env.vmas_random_state
        return shared

    @contextlib.contextmanager
    def _own_luck(self) -> Iterator[None]:
        """An evaluation draws nothing from what training draws from."""
        shared = self._shared_luck
        others, shared[:] = [*shared], self._luck
        yield
        self._luck, shared[:] = [*shared], others

    def runtime_state(self) -> dict[str, Any]:
        """Nothing: what a scenario remembers is its own affair."""
        return {}

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """Refused, because a run could not go on where it was."""
        raise ValueError(
            "a run in env=vmas cannot be resumed, because its simulator cannot be saved; expected another "
            "env; start a new run, or evaluate this one"
        )


def _built(scenario: str, options: Mapping[str, Any], num_envs: int, device: Any) -> VmasEnv:
    """TorchRL's wrapper around the scenario."""
    try:
        import vmas
    except ImportError as error:
        raise ValueError(_INSTALL) from error
    known = (*vmas.scenarios, *vmas.mpe_scenarios, *vmas.debug_scenarios)
    if scenario not in known:
        raise ValueError(
            f"env.vmas_scenario = {scenario!r}; expected one of {', '.join(sorted(known))}; "
            "change env.vmas_scenario"
        )
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
            f"env.vmas_scenario = {scenario!r} has agents of several kinds; expected agents that are told "
            "and do alike; change env.vmas_scenario or env.options"
        )
    return inner
