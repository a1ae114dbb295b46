"""Discriminators of team and individual skills: their networks, the intrinsic reward and their update."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from navrl.agents.hmasd.options import DiscriminatorOptions, IntrinsicOptions
from navrl.agents.hmasd.rollout import Outcomes
from navrl.agents.hmasd.update import Update
from navrl.agents.networks.encoders import ObservationEncoder
from navrl.agents.networks.layers import LayerNormMLP, NetworkOptions, linear
from navrl.agents.networks.team import TeamSpec

_OUTPUT_GAIN = 0.01
_STEP_METRICS = ("broken", "grad_norm", "loss", "accuracy")


class TeamDiscriminator(nn.Module):
    """q(Z | s): the team's skill by the state after a step."""

    def __init__(self, *, team: TeamSpec, network: NetworkOptions, skills: int) -> None:
        super().__init__()
        self.layers = LayerNormMLP(team.state_size, network)
        self.out = linear(self.layers.outputs, skills, _OUTPUT_GAIN)

    def forward(self, outcomes: Outcomes) -> Tensor:
        """Return log-probabilities (M, skills)."""
        return self.out(self.layers(outcomes.state)).log_softmax(-1)


class IndividualDiscriminator(nn.Module):
    """q(z | o, Z): an agent's skill by its observation after a step and the team's skill."""

    def __init__(
        self, *, team: TeamSpec, network: NetworkOptions, team_skills: int, skills: int
    ) -> None:
        super().__init__()
        self.team_skills = team_skills
        self.encoder = ObservationEncoder(team.leaves, network)
        self.layers = LayerNormMLP(self.encoder.outputs + team_skills, network)
        self.out = linear(self.layers.outputs, skills, _OUTPUT_GAIN)

    def forward(self, outcomes: Outcomes) -> Tensor:
        """Return log-probabilities (M, A, skills)."""
        rows = self.encoder(outcomes.frames)
        team = functional.one_hot(outcomes.team, self.team_skills).to(rows).unsqueeze(-2)
        team = team.expand(*rows.shape[:-1], -1)
        return self.out(self.layers(torch.cat([rows, team], -1))).log_softmax(-1)


class Discriminators(nn.Module):
    """The discriminators of the team's skill and of the agents' skills."""

    def __init__(self, team: TeamDiscriminator, individual: IndividualDiscriminator) -> None:
        super().__init__()
        self.team, self.individual = team, individual


class LowLevelReward(NamedTuple):
    """The reward of the low level, and its intrinsic terms before they are weighted."""

    total: Tensor  # (M, A)
    team: Tensor  # (M,), log q(Z | s')
    individual: Tensor  # (M, A), log q(z | o', Z)


def low_level_reward(
    options: IntrinsicOptions, discriminators: Discriminators, outcomes: Outcomes, reward: Tensor
) -> LowLevelReward:
    """Add intrinsic rewards to the env's reward of every agent (M, A).

    Both logarithms are never positive: every step costs, so an episode that ends early costs less. In an
    env that ends with success this rewards success; options.center adds the log-probability of a uniform
    guess, and then a skill that cannot be distinguished from others is worth 0.
    """
    team, individual = discriminators.team(outcomes), discriminators.individual(outcomes)
    log_team = _log_likelihood(team, outcomes.team)
    log_individual = _log_likelihood(individual, outcomes.individual)
    if options.center:
        log_team = log_team + math.log(team.shape[-1])
        log_individual = log_individual + math.log(individual.shape[-1])
    log_individual = torch.where(outcomes.alive, log_individual, 0.0)
    intrinsic = options.lambda_team * log_team.unsqueeze(-1)
    intrinsic = intrinsic + options.lambda_indiv * log_individual
    return LowLevelReward(options.lambda_e * reward + intrinsic, log_team, log_individual)


class DiscriminatorUpdate:
    """The update of both discriminators, and the rewards they gave before it."""

    def __init__(
        self,
        discriminators: Discriminators,
        options: DiscriminatorOptions,
        intrinsic: IntrinsicOptions,
        update: Update,
    ) -> None:
        self.discriminators = discriminators
        self.options, self.intrinsic, self.update = options, intrinsic, update
        self.optimizers = {
            f"{name}_discriminator": update.optimizer(module, options.learning_rate)
            for name, module in discriminators.named_children()
        }
        self._gradients = {
            "team": update.gradients(self._team_loss, discriminators.team),
            "individual": update.gradients(self._individual_loss, discriminators.individual),
        }

    @torch.no_grad()
    def reward(self, outcomes: Outcomes, reward: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the low-level reward (M, A) for the env's reward of every agent, and metrics."""
        rewards = low_level_reward(self.intrinsic, self.discriminators, outcomes, reward)
        team, individual = rewards.team.mean(), rewards.individual.mean()
        return rewards.total, {
            "low/reward/env": reward.mean(),
            "low/reward/team": self.intrinsic.lambda_team * team,
            "low/reward/individual": self.intrinsic.lambda_indiv * individual,
            "low/reward/total": rewards.total.mean(),
            "skill/mi_team": team + self._chance(self.discriminators.team.out),
            "skill/mi_individual": individual + self._chance(self.discriminators.individual.out),
        }

    def fit(self, outcomes: Outcomes, stopped: Tensor) -> dict[str, Tensor]:
        """Take all gradient steps of one iteration."""
        metrics: dict[str, Tensor] = {}
        for name, gradients in self._gradients.items():
            means = self.update.fit(
                self.optimizers[f"{name}_discriminator"],
                gradients,
                outcomes,
                stopped,
                num_epochs=self.options.num_epochs,
            )
            for metric, value in zip(_STEP_METRICS, means, strict=True):
                metrics[f"discriminator/{metric}_{name}"] = value
        return metrics

    def _chance(self, out: nn.Linear) -> float:
        """Return the entropy of a uniform guess, 0 if the rewards are centred there anyway."""
        return 0.0 if self.intrinsic.center else math.log(out.out_features)

    def _team_loss(self, outcomes: Outcomes) -> tuple[Tensor, Tensor]:
        counted = torch.ones_like(outcomes.team, dtype=torch.bool)
        return _cross_entropy(self.discriminators.team(outcomes), outcomes.team, counted)

    def _individual_loss(self, outcomes: Outcomes) -> tuple[Tensor, Tensor]:
        log_probs = self.discriminators.individual(outcomes)
        return _cross_entropy(log_probs, outcomes.individual, outcomes.alive)


def _cross_entropy(log_probs: Tensor, skill: Tensor, alive: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss, and a row of the loss and the accuracy, both of the living.

    The loss is a mean over all rows, so that it may be gathered in parts.
    """
    right = (log_probs.argmax(-1) == skill) & alive
    loss = -torch.where(alive, _log_likelihood(log_probs, skill), 0.0).mean()
    return loss, torch.stack([loss, right.sum() / alive.sum().clamp_min(1)])


def _log_likelihood(log_probs: Tensor, skill: Tensor) -> Tensor:
    """Select the log-probabilities of these skills (...) from (..., skills)."""
    return log_probs.gather(-1, skill.unsqueeze(-1)).squeeze(-1)
