"""Who tells skills apart by where they lead: the team's by the state, an agent's by what it is told."""

from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn import functional

from navrl.agents.networks.encoders import ObservationEncoder
from navrl.agents.networks.layers import LayerNormMLP, NetworkOptions, linear
from navrl.agents.networks.team import TeamSpec

_SMALL = 0.01


class Outcomes(NamedTuple):
    """Where a step led, before any reset, and which skills it was made with; rows first."""

    state: Tensor  # (M, features)
    frames: TensorDictBase  # (M, A)
    team: Tensor  # (M,)
    individual: Tensor  # (M, A)
    alive: Tensor  # bool (M, A); where a dead agent is tells nothing


class TeamDiscriminator(nn.Module):
    """q(Z | s)."""

    def __init__(self, *, team: TeamSpec, network: NetworkOptions, skills: int) -> None:
        super().__init__()
        self.body = LayerNormMLP(team.state_size, network)
        self.out = linear(self.body.outputs, skills, _SMALL)

    def forward(self, outcomes: Outcomes) -> Tensor:
        """Log-probabilities (M, skills)."""
        return self.out(self.body(outcomes.state)).log_softmax(-1)


class AgentDiscriminator(nn.Module):
    """q(z | o, Z)."""

    def __init__(
        self, *, team: TeamSpec, network: NetworkOptions, team_skills: int, skills: int
    ) -> None:
        super().__init__()
        self.team_skills = team_skills
        self.view = ObservationEncoder(team.leaves, network)
        self.body = LayerNormMLP(self.view.outputs + team_skills, network)
        self.out = linear(self.body.outputs, skills, _SMALL)

    def forward(self, outcomes: Outcomes) -> Tensor:
        """Log-probabilities (M, A, skills)."""
        rows = self.view(outcomes.frames)
        told = functional.one_hot(outcomes.team, self.team_skills).to(rows).unsqueeze(-2)
        told = told.expand(*rows.shape[:-1], -1)
        return self.out(self.body(torch.cat([rows, told], -1))).log_softmax(-1)


def likelihood(log_probs: Tensor, skill: Tensor) -> Tensor:
    """The log-probability of these skills (...) among all (..., skills)."""
    return log_probs.gather(-1, skill.unsqueeze(-1)).squeeze(-1)


def guessing(log_probs: Tensor, skill: Tensor, alive: Tensor) -> tuple[Tensor, Tensor]:
    """What a discriminator minimises, the cross-entropy; and how often its best guess is right.

    Of the living; but the loss is a mean over all rows, so that it may be gathered in pieces.
    """
    right = (log_probs.argmax(-1) == skill) & alive
    loss = -torch.where(alive, likelihood(log_probs, skill), 0.0).mean()
    return loss, right.sum() / alive.sum().clamp_min(1)
