"""A rollout of a team with skills as plain tensors, and metrics of how the skills were used."""

from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torch.nn import functional

from navrl.agents.core.team import ALIVE, GROUP, state_of
from navrl.agents.networks.memory import HIDDEN

SKILLS = "skill"  # the key (N,) of skills and their decisions in a rollout
# The reason for a decision at a step; KEPT: there was none, the skills of the step before were kept.
KEPT, INTERVAL, RESET, ROLLOUT_START = range(4)


class Outcomes(NamedTuple):
    """States and frames after each step, before any reset, and the skills of the step; rows first."""

    state: Tensor  # (M, features)
    frames: TensorDictBase  # (M, A)
    team: Tensor  # (M,), the team's skill
    individual: Tensor  # (M, A), the agents' skills
    alive: Tensor  # bool (M, A); the frames of dead agents do not count


class TeamRollout(NamedTuple):
    """(N, T) steps of a team; columns of agents are (N, T, A)."""

    state: Tensor
    frames: TensorDictBase
    next_state: Tensor  # before any reset
    next_frames: TensorDictBase
    alive: Tensor  # bool (N, T, A)
    next_alive: Tensor
    reward: Tensor  # of the team
    own_reward: Tensor  # (N, T, A), the team's where agents have no rewards of their own
    done: Tensor
    terminated: Tensor
    chosen: Tensor  # (N, T, P), the skills of all positions
    skill: Tensor  # (N, T, A), the skills of the agents
    reason: Tensor  # for a decision at this step
    stamp: Tensor  # the policy version that chose the skills, plus 1
    log_prob: Tensor  # (N, T, P) of the skills where they were chosen
    hidden: Tensor  # (N, T, A, H) of the actor before the step; H is 0 without a memory

    @property
    def team(self) -> Tensor:
        """The team's skill (N, T)."""
        return self.chosen[..., 0]

    @property
    def cut(self) -> Tensor:
        """True at the ends of episodes and at the last step: no later step of the rollout follows."""
        last = torch.zeros_like(self.done)
        last[:, -1] = True
        return self.done | last

    @property
    def fresh(self) -> Tensor:
        """True where an episode began within the rollout (N, T)."""
        before = torch.zeros_like(self.done[:, :1])
        return torch.cat([before, self.done[:, :-1]], 1)

    def outcomes(self) -> Outcomes:
        """Return the outcomes of all steps, one row each."""
        rows = (self.next_state, self.next_frames, self.team, self.skill, self.next_alive)
        return Outcomes(*(column.flatten(0, 1) for column in rows))


def team_rollout(rollout: TensorDictBase) -> TeamRollout:
    """Read the tensors of a rollout by a HierarchicalPolicy."""
    group, ahead, skills = rollout.get(GROUP), rollout.get("next"), rollout.get(SKILLS)
    kept = ("observation", "action_mask", "action", "action_log_prob")
    team_reward = ahead.get("reward").unsqueeze(-1).expand(*group.shape, 1)
    return TeamRollout(
        state=state_of(rollout),
        frames=group.select(*kept, strict=False),
        next_state=state_of(ahead),
        next_frames=ahead.get(GROUP).select("observation"),
        alive=_alive(group),
        next_alive=_alive(ahead.get(GROUP)),
        reward=ahead.get("reward").squeeze(-1),
        own_reward=ahead.get((GROUP, "reward"), team_reward).squeeze(-1),
        done=ahead.get("done").squeeze(-1),
        terminated=ahead.get("terminated").squeeze(-1),
        chosen=skills.get("chosen"),
        skill=group.get("skill"),
        reason=skills.get("reason").squeeze(-1),
        stamp=skills.get("stamp").squeeze(-1),
        log_prob=skills.get("log_prob"),
        hidden=group.get(HIDDEN, group.get("action").new_zeros(*group.shape, 0)),
    )


def _alive(group: TensorDictBase) -> Tensor:
    """Return the living agents of frames (..., A): all, where agents cannot die."""
    alive = group.get(ALIVE, None)
    if alive is None:
        return torch.ones(group.shape, dtype=torch.bool, device=group.device)
    return alive.squeeze(-1)


def skill_metrics(
    rollout: TeamRollout, *, team_skills: int, individual_skills: int, version: int
) -> dict[str, Tensor]:
    """Compute shares of decisions by skill and by change, and the steps with skills of another version."""
    decide = rollout.reason != KEPT
    weight = decide.float() / decide.sum().clamp_min(1)
    team = (functional.one_hot(rollout.team, team_skills) * weight.unsqueeze(-1)).sum((0, 1))
    of_agents = functional.one_hot(rollout.skill, individual_skills) * weight[..., None, None]
    individual = of_agents.sum((0, 1, 2)) / rollout.skill.shape[-1]
    changed = (rollout.chosen[:, 1:] != rollout.chosen[:, :-1]).any(-1)
    again = (rollout.reason == INTERVAL)[:, 1:]
    ordered = rollout.skill.sort(-1).values
    distinct = (ordered[..., 1:] != ordered[..., :-1]).all(-1)
    return {
        **{f"skill/usage_Z_{i}": share for i, share in enumerate(team.unbind())},
        **{f"skill/usage_z_{i}": share for i, share in enumerate(individual.unbind())},
        "skill/switches": (changed & again).sum() / again.sum().clamp_min(1),
        "skill/distinct_fraction": (distinct * weight).sum(),
        "sync/stale_frames": (rollout.stamp != version + 1).sum().float(),
    }
