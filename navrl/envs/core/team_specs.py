"""TorchRL specs of envs in which several agents act for one team: the group "agents", and "state"."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torchrl.data import Categorical, Composite, TensorSpec, Unbounded

from navrl.envs.core.requirements import require

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
