"""Action specs that TorchRL lacks; envs publish them and agents read them."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torchrl.data import Bounded, Categorical, Composite, TensorSpec, Unbounded

from navrl.envs.core.requirements import require

AGENT_ID = "agent_id"  # the leaf of an observation that says which of its team sees it


class _KeepsItsClass(type(Bounded)):  # type: ignore[misc]
    """Bounded's own metaclass turns every new instance, also of a subclass, into BoundedContinuous."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        """A new instance, of the class that was called."""
        return ABCMeta.__call__(cls, *args, **options)


class Hybrid(Bounded, metaclass=_KeepsItsClass):
    """Bounded columns and then a binary one, which is 0 or 1, in one floating-point tensor (..., columns).

    An action mask for it has two columns per binary one: may it be 0, may it be 1. An action with more
    binary columns is a subclass with another `num_binary`: TorchRL rebuilds specs from bounds and shape,
    so anything else that a spec knows has to come with its class.
    """

    num_binary = 1

    def __init__(
        self,
        low: Sequence[float] | Tensor,
        high: Sequence[float] | Tensor,
        shape: Sequence[int],
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not isinstance(low, Tensor):  # then a person wrote it, else TorchRL copied it
            binary = [*zip(low, high, strict=True)][-self.num_binary :]
            if len(low) <= self.num_binary or binary != [(0.0, 1.0)] * self.num_binary:
                raise ValueError(
                    f"{type(self).__name__}({low = }, {high = }); expected bounded columns and then "
                    f"{self.num_binary} with the bounds 0 and 1; change the env's action spec"
                )
        low, high = (
            torch.as_tensor(bound, dtype=dtype, device=device).expand(*shape).clone()
            for bound in (low, high)
        )
        super().__init__(low, high, shape, device, dtype)

    def rand(self, shape: Sequence[int] | None = None) -> Tensor:
        """Uniform over the bounded columns, a fair coin for the binary one."""
        return self._rounded(super().rand(torch.Size(shape or ())))

    def is_in(self, val: Tensor) -> bool:
        """Whether all values are within their bounds, and binary ones exactly 0 or 1."""
        return bool(super().is_in(val)) and torch.equal(val, self._rounded(val))

    def to(self, dest: torch.dtype | torch.device | str) -> Hybrid:
        """The same on another device, or of another dtype; Bounded's own would return a Bounded."""
        spec = super().to(dest)
        return type(self)(spec.low, spec.high, spec.shape, spec.device, spec.dtype)

    def _project(self, val: Tensor) -> Tensor:
        return self._rounded(super()._project(val))

    def _rounded(self, values: Tensor) -> Tensor:
        bounded, binary = values.tensor_split([-self.num_binary], -1)
        return torch.cat([bounded, (binary >= 0.5).to(values.dtype)], -1)


ALWAYS: Mapping[str, str] = MappingProxyType({})  # statistics are means over all episodes


def observation_spec(
    leaves: Mapping[str, tuple[int, ...]],
    *,
    num_envs: int,
    num_agents: int,
    state_size: int,
    device: Any,
) -> Composite:
    """What every agent is told, and the state that a centralised critic is told."""
    require("num_envs", num_envs, num_envs >= 1, "1 or more")  # before specs trip over it
    shape = (num_envs, num_agents)
    told = {
        name: Categorical(2, shape=(*shape, *trailing), dtype=torch.bool, device=device)
        if name.endswith("_mask")
        else Unbounded((*shape, *trailing), device=device)
        for name, trailing in leaves.items()
    }
    observation = Composite(told, shape=shape, device=device)
    return Composite(
        agents=Composite(observation=observation, shape=shape, device=device),
        state=Unbounded((num_envs, state_size), device=device),
        shape=(num_envs,),
        device=device,
    )


def action_spec(one_agent: TensorSpec) -> Composite:
    """("agents", "action"), with the spec (N, A, columns) of what an agent can do."""
    shape, device = one_agent.shape[:2], one_agent.device
    group = Composite(action=one_agent, shape=shape, device=device)
    return Composite(agents=group, shape=shape[:1], device=device)


def reward_spec(shape: torch.Size, rewarded_agents: int, device: Any) -> TensorSpec:
    """The team's reward (N, 1), and beside it ("agents", "reward") where that many have their own."""
    team = Unbounded((*shape, 1), device=device)
    if rewarded_agents == 0:
        return team
    group = (*shape, rewarded_agents)
    own = Composite(reward=Unbounded((*group, 1), device=device), shape=group, device=device)
    return Composite(reward=team, agents=own, shape=shape, device=device)


def check_objective(objective: str, names: tuple[str, ...]) -> None:
    """Refuse a statistic that the env does not have."""
    if objective not in names:
        raise ValueError(
            f"env.objective = {objective!r}; expected one of {', '.join(names)}; change env.objective"
        )


def check_observation(observation: object, kinds: Mapping[str, type], env: str) -> None:
    """Refuse an observation that was made for another env."""
    if not isinstance(observation, tuple(kinds.values())):
        raise ValueError(
            f"observation is {type(observation).__name__}; env={env} expected one of {', '.join(kinds)}; "
            "change observation"
        )
