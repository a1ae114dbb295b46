"""Teams: frames of a group of agents as rows of one agent, and the state that a central critic observes."""

from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.data import Composite, TensorSpec

from navrl.agents.networks.memory import HIDDEN
from navrl.envs.core.specs import mask_of

GROUP = "agents"  # where an env of several agents keeps what each of them has, batch (N, A)
ALIVE = (
    "alive"  # bool (N, A, 1) in the group, where agents can die; their actions then have no effect
)

STATE = "state"  # (N, features) at the root: input of centralised networks; not every env has it
CENTRAL = "central"  # in the group: input of a centralised critic, for each agent

_FRAME = ("observation", CENTRAL, "action_mask", "action", "action_log_prob", ALIVE, HIDDEN)
_UPCOMING = ("observation", CENTRAL, "reward", ALIVE)
_TEAM = ("reward", "done", "terminated", "truncated")


class TeamOptions(NamedTuple):
    """The group agent.team; an env with one agent takes INDEPENDENT only."""

    critic: str  # own: sees what its agent sees | central: what the whole team does | both
    share_actor: bool
    agent_id: bool  # whether networks observe which agent they act for


INDEPENDENT = TeamOptions(critic="own", share_actor=True, agent_id=False)


def group_of(observation_spec: Composite) -> str | None:
    """Return the group of an env with several agents; None for an env with one."""
    return GROUP if GROUP in observation_spec else None


def frames_of(whole: Any, group: str | None) -> Any:
    """Return the part of a TensorDict or spec that the policy reads: its group, or all of it."""
    return whole if group is None else whole[group]


def action_of(action_spec: TensorSpec, group: str | None) -> TensorSpec:
    """Return the spec of an action: env.action_spec is that of a single agent, but holds that of a group."""
    return action_spec if group is None else action_spec[group, "action"]


def in_group(group: str | None, *keys: NestedKey) -> list[NestedKey]:
    """Return the keys of one agent as the env and the collector name them."""
    if group is None:
        return list(keys)
    return [(group, key) if isinstance(key, str) else (group, *key) for key in keys]


def as_one_agent(rollout: TensorDictBase) -> tuple[TensorDictBase, int]:
    """Return (N, T) frames of a team as (N * A, T) frames of one agent, and how many agents share a reward.

    The flags of the team are repeated for every agent, and so is the reward unless agents have their own.
    """
    if GROUP not in rollout:
        return rollout, 1
    num_agents = rollout.get(GROUP).shape[-1]
    frames = _rows(rollout.get(GROUP).select(*_FRAME, strict=False))
    upcoming = _rows(rollout.get(("next", GROUP)).select(*_UPCOMING, strict=False))
    own_reward = "reward" in upcoming
    for key in _TEAM[own_reward:]:
        upcoming.set(key, rollout.get(("next", key)).repeat_interleave(num_agents, 0))
    return frames.set("next", upcoming), 1 if own_reward else num_agents


def state_of(frames: TensorDictBase) -> Tensor:
    """Return the state of a team (..., features), or all observations if the env has no state."""
    state = frames.get(STATE, None)
    return joint_observation(frames.get(GROUP)) if state is None else state


def joint_observation(group: TensorDictBase) -> Tensor:
    """Return all observations of frames (..., A) in one row each, with zeros for the absent and the dead."""
    observation = group.get("observation")
    parts = []
    for name in sorted(observation.keys()):
        leaf, present = observation.get(name), observation.get(mask_of(name), None)
        if present is not None:
            leaf = torch.where(present.unsqueeze(-1), leaf, 0.0)
        parts.append(leaf.flatten(group.ndim).float())
    alive = group.get(ALIVE, None)
    if alive is not None:
        parts = [*(torch.where(alive, part, 0.0) for part in parts), alive.float()]
    return torch.cat(parts, -1).flatten(-2)


def inherited(value: Tensor, alive: Tensor, sharing: int) -> Tensor:
    """Return values (N * A, T, 1) in which a dead agent has the mean value of its living mates, or zero.

    An episode goes on for the team, so the trace of a dead agent runs on over its dead frames, and the
    team's later rewards still count at the moment of death. Its critic has never learned from a dead
    agent's observation, but its mates' values are estimates of the very return they share. With rewards
    of their own (sharing = 1) nobody inherits: then the trace alone gives the dead their returns.
    """
    values, living = (x.view(-1, sharing, *x.shape[1:]) for x in (value, alive))
    mates = torch.where(living, values, 0.0).sum(1, keepdim=True)
    mates = mates / living.sum(1, keepdim=True).clamp_min(1)
    return torch.where(living, values, mates).flatten(0, 1)


def _rows(group: TensorDictBase) -> TensorDict:
    """Reshape (N, T, A) to (N * A, T): the agents of an env are rows side by side."""
    num_envs, steps, num_agents = group.shape
    return group.apply(
        lambda x: x.transpose(1, 2).flatten(0, 1), batch_size=[num_envs * num_agents, steps]
    )
