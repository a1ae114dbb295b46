"""Who acts: one actor for all agents, told its skill, and one critic, of the team or of its agents."""

from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn import functional

from navrl.agents.hmasd.options import ActorOptions
from navrl.agents.hmasd.skill_bias import initial_biases
from navrl.agents.networks.distributions import ActionDistribution
from navrl.agents.networks.encoders import ObservationEncoder
from navrl.agents.networks.heads import Head
from navrl.agents.networks.layers import LayerNormMLP, NetworkOptions, linear
from navrl.agents.networks.memory import recurrence
from navrl.agents.networks.team import TeamSpec

INJECTIONS = ("last", "input", "both")
CRITICS = ("team", "both")
_SMALL = 0.01


class Actor(nn.Module):
    """What an agent is told and its skill to a distribution of actions.

    skill_injection=last adds a learned bias of the skill to what the head is told: skills differ from the
    first step on, and whatever an agent sees it can be steered. input: the skill is told like all else.
    """

    def __init__(
        self,
        *,
        team: TeamSpec,
        network: NetworkOptions,
        head: Head,
        skills: int,
        options: ActorOptions,
    ) -> None:
        super().__init__()
        at_input, at_last = _injected(options.skill_injection)
        self.view, self.head = ObservationEncoder(team.leaves, network), head
        self.skills, self.at_input = skills, at_input
        self.body = LayerNormMLP(self.view.outputs + skills * at_input, network)
        self.out = linear(self.body.outputs, head.outputs, _SMALL)
        self.memory = recurrence(
            options.rnn, self.body.outputs, options.chunk_length, options="agent.actor"
        )
        biases = initial_biases(options.skill_init, skills, options.skill_init_std, head)
        self.bias = nn.Parameter(biases) if at_last else None

    def step(
        self, frames: TensorDictBase, skill: Tensor, hidden: Tensor
    ) -> tuple[ActionDistribution, Tensor]:
        """The distribution of every row of frames (...) with the skills (...), and what is remembered."""
        rows, hidden = self.memory.step(self._features(frames, skill), hidden)
        return self._decided(rows, frames, skill), hidden

    def forward(
        self, frames: TensorDictBase, skill: Tensor, hidden: Tensor, fresh: Tensor
    ) -> ActionDistribution:
        """The same for chunks of steps (R, L), by what was remembered before the first; none where fresh."""
        rows = self.memory(self._features(frames, skill), hidden, fresh)
        return self._decided(rows, frames, skill)

    def _features(self, frames: TensorDictBase, skill: Tensor) -> Tensor:
        rows = self.view(frames)
        if self.at_input:
            rows = torch.cat([rows, functional.one_hot(skill, self.skills).to(rows)], -1)
        return self.body(rows)

    def _decided(self, rows: Tensor, frames: TensorDictBase, skill: Tensor) -> ActionDistribution:
        outputs = self.out(rows)
        if self.bias is not None:
            outputs = outputs + self.bias[skill]
        return self.head.distribution(outputs, frames)


class Judged(NamedTuple):
    """Moments of a team (...), what its agents are told and their skills (..., A)."""

    state: Tensor
    team: Tensor  # the team's skill
    frames: TensorDictBase
    skill: Tensor


class TeamCritic(nn.Module):
    """State and the team's skill to the value that every agent may expect."""

    reads: tuple[str, ...] = ()  # of frames

    def __init__(
        self, *, team: TeamSpec, network: NetworkOptions, skills: int, injection: str
    ) -> None:
        super().__init__()
        self.at_input, self.at_last = _injected(injection)
        self.skills = skills
        self.body = LayerNormMLP(team.state_size + skills * self.at_input, network)
        self.last = linear(self.body.outputs + skills * self.at_last, 1, _SMALL)

    def forward(self, judged: Judged) -> Tensor:
        """Values (..., A), in units of the critic."""
        told = functional.one_hot(judged.team, self.skills).to(judged.state)
        rows = self.body(torch.cat([judged.state, told], -1) if self.at_input else judged.state)
        value = self.last(torch.cat([rows, told], -1) if self.at_last else rows)
        return value.expand(judged.skill.shape)


class AgentCritic(nn.Module):
    """All that, what an agent is told and its own skill to the value that this agent may expect."""

    reads: tuple[str, ...] = ("observation",)  # of frames

    def __init__(
        self, *, team: TeamSpec, network: NetworkOptions, team_skills: int, skills: int
    ) -> None:
        super().__init__()
        self.team_skills, self.skills = team_skills, skills
        self.view = ObservationEncoder(team.leaves, network)
        self.body = LayerNormMLP(
            team.state_size + self.view.outputs + team_skills + skills, network
        )
        self.last = linear(self.body.outputs, 1, _SMALL)

    def forward(self, judged: Judged) -> Tensor:
        """Values (..., A), in units of the critic."""
        seen = self.view(judged.frames)
        team = functional.one_hot(judged.team, self.team_skills).to(seen)
        shared = torch.cat([judged.state, team], -1).unsqueeze(-2).expand(*seen.shape[:-1], -1)
        own = functional.one_hot(judged.skill, self.skills).to(seen)
        return self.last(self.body(torch.cat([shared, seen, own], -1))).squeeze(-1)


def _injected(injection: str) -> tuple[bool, bool]:
    """Whether at the input, whether in the last layer."""
    if injection not in INJECTIONS:
        raise ValueError(
            f"agent.actor.skill_injection = {injection!r}; expected one of {', '.join(INJECTIONS)}; "
            "change agent.actor.skill_injection"
        )
    return injection != "last", injection != "input"
