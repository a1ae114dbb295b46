"""A rollout as the tensors that the parts of the agent learn from."""

from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.agents.core.team import ALIVE, GROUP, state_of
from navrl.agents.hmasd.discriminators import Outcomes
from navrl.agents.hmasd.policy import SKILLS


class Block(NamedTuple):
    """(N, T) steps of a team; whatever agents have of their own is (N, T, A)."""

    state: Tensor
    frames: TensorDictBase
    next_state: Tensor  # before any reset
    next_frames: TensorDictBase
    alive: Tensor  # bool (N, T, A)
    next_alive: Tensor
    reward: Tensor  # of the team
    own_reward: Tensor  # (N, T, A), the team's where agents have none of their own
    done: Tensor
    terminated: Tensor
    chosen: Tensor  # (N, T, P)
    skill: Tensor  # (N, T, A)
    reason: Tensor  # why skills were chosen at this step
    stamp: Tensor  # by which policy version, plus 1
    log_prob: Tensor  # (N, T, P) of the skills where they were chosen
    hidden: Tensor  # (N, T, A, H) what actors remembered before the step; H is 0 without a memory

    @property
    def team(self) -> Tensor:
        """The team's skill (N, T)."""
        return self.chosen[..., 0]

    @property
    def cut(self) -> Tensor:
        """Where no later step of the rollout tells what followed: ends of episodes, and the last step."""
        last = torch.zeros_like(self.done)
        last[:, -1] = True
        return self.done | last

    @property
    def fresh(self) -> Tensor:
        """Where an episode began within the rollout (N, T)."""
        before = torch.zeros_like(self.done[:, :1])
        return torch.cat([before, self.done[:, :-1]], 1)

    def outcomes(self) -> Outcomes:
        """Where all the steps led, one row each."""
        rows = (self.next_state, self.next_frames, self.team, self.skill, self.next_alive)
        return Outcomes(*(x.flatten(0, 1) for x in rows))


def block_of(rollout: TensorDictBase) -> Block:
    """The block of a rollout by a HierarchicalPolicy."""
    group, ahead, skills = rollout.get(GROUP), rollout.get("next"), rollout.get(SKILLS)
    kept = ("observation", "action_mask", "action", "action_log_prob")
    return Block(
        state=state_of(rollout),
        frames=group.select(*kept, strict=False),
        next_state=state_of(ahead),
        next_frames=ahead.get(GROUP).select("observation"),
        alive=_living(group),
        next_alive=_living(ahead.get(GROUP)),
        reward=ahead.get("reward").squeeze(-1),
        own_reward=ahead.get((GROUP, "reward"), _for_each(ahead.get("reward"), group)).squeeze(-1),
        done=ahead.get("done").squeeze(-1),
        terminated=ahead.get("terminated").squeeze(-1),
        chosen=skills.get("chosen"),
        skill=group.get("skill"),
        reason=skills.get("reason").squeeze(-1),
        stamp=skills.get("stamp").squeeze(-1),
        log_prob=skills.get("log_prob"),
        hidden=group.get("hidden", group.get("action").new_zeros(*group.shape, 0)),
    )


def _for_each(row: Tensor, group: TensorDictBase) -> Tensor:
    """What the team has (N, T, 1), for each of its agents (N, T, A, 1)."""
    return row.unsqueeze(-1).expand(*group.shape, 1)


def _living(group: TensorDictBase) -> Tensor:
    """Who of frames (..., A) is alive: everybody, where nobody can die."""
    alive = group.get(ALIVE, None)
    if alive is None:
        return torch.ones(group.shape, dtype=torch.bool, device=group.device)
    return alive.squeeze(-1)
