"""Scenarios of the simulator VMAS under the keys of our team envs, as an independent check of agents.

Agents of one kind are the group "agents"; each has a reward of its own, the team's reward is their mean, and
a centralised critic observes what all agents observe.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Bounded
from torchrl.envs.libs.vmas import VmasEnv
from torchrl.envs.utils import MarlGroupMapType

from navrl.config.checks import ConfigError, require_choice
from navrl.envs.core import specs
from navrl.envs.external.base import FEATURES, ExternalEnv, ExternalOptions, Moved, making, needs


class VmasTeamEnv(ExternalEnv):
    """N simulations of one scenario."""

    def __init__(
        self, *, vmas_scenario: str, options: Mapping[str, Any], **common: Unpack[ExternalOptions]
    ) -> None:
        super().__init__(**common)
        inner = self._inner = _built(vmas_scenario, options, common["num_envs"], self.device)
        self._random_state: list[Any] = [*self._global_random_state]
        self._set_seed(common["seed"])
        seen = inner.full_observation_spec["agents", "observation"].shape[1:]
        move = inner.full_action_spec["agents", "action"]
        action = Bounded(
            low=move.low.float(), high=move.high.float(), shape=move.shape, device=self.device
        )
        observation, action = specs.team_specs({FEATURES: seen[1:]}, seen.numel(), action)
        self.declare(observation, action, rewarded_agents=seen[0])

    def advance(self, tensordict: TensorDictBase) -> Moved:
        """Step all simulations; the team's reward is the mean of the agents'."""
        with self._own_random_state():
            stepped = self._inner._step(tensordict)
        own, terminated = (
            stepped.get(("agents", "reward")),
            stepped.get("terminated").squeeze(-1),
        )
        leaves = {**_leaves(stepped), "agents/reward": own}
        return Moved(leaves, own.mean((1, 2)), terminated, torch.zeros_like(terminated))

    def begin(self, mask: Tensor | None) -> dict[str, Tensor]:
        """Begin new episodes where the mask (N,) is true, or everywhere."""
        request = TensorDict({}, batch_size=self.batch_size, device=self.device)
        if mask is not None:
            request.set("_reset", mask.unsqueeze(-1))
        with self._own_random_state():
            return _leaves(self._inner._reset(request))

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


def _leaves(frame: TensorDictBase) -> dict[str, Tensor]:
    """Return the observations of all agents under our keys."""
    seen: Tensor = frame.get(("agents", "observation")).float()
    return {f"agents/observation/{FEATURES}": seen, "state": seen.flatten(1)}


def _built(scenario: str, options: Mapping[str, Any], num_envs: int, device: Any) -> VmasEnv:
    """Build TorchRL's wrapper around the scenario."""
    with needs("vmas", "env=vmas needs VMAS"):
        import vmas
    known = (*vmas.scenarios, *vmas.mpe_scenarios, *vmas.debug_scenarios)
    require_choice("env.vmas_scenario", scenario, sorted(known))
    with making("env.vmas_scenario", scenario, options):
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
        raise ConfigError(
            f"env.vmas_scenario = {scenario!r} has agents of several kinds; expected agents with equal "
            "observations and actions; change env.vmas_scenario or env.options"
        )
    return inner
