"""What agents are paid for: the env's reward, and skills that can be told by where they lead."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from navrl.agents.hmasd.discriminators import Outcomes, likelihood
from navrl.agents.hmasd.options import IntrinsicOptions


class Pay(NamedTuple):
    """The reward of every agent (..., A), and what it is made of before weights."""

    total: Tensor  # (..., A)
    team: Tensor  # (...), log q(Z | s')
    individual: Tensor  # (..., A), log q(z | o', Z)


def intrinsic_reward(
    options: IntrinsicOptions,
    team_discriminator: nn.Module,
    agent_discriminator: nn.Module,
    outcomes: Outcomes,
    reward: Tensor,
) -> Pay:
    """Pay of steps with the env's reward of every agent (M, A); the outcomes are of before any reset.

    Both logarithms are never positive: every step costs, so an episode that ends early costs less. In an
    env that ends with success this favours success all by itself; options.center adds what guessing would
    give, and then a skill that nobody can tell from others is worth 0.
    """
    team = team_discriminator(outcomes)
    individual = agent_discriminator(outcomes)
    known_team = likelihood(team, outcomes.team)
    known_individual = likelihood(individual, outcomes.individual)
    if options.center:
        known_team = known_team + math.log(team.shape[-1])
        known_individual = known_individual + math.log(individual.shape[-1])
    known_individual = torch.where(outcomes.alive, known_individual, 0.0)
    intrinsic = options.lambda_team * known_team.unsqueeze(-1)
    intrinsic = intrinsic + options.lambda_indiv * known_individual
    return Pay(options.lambda_e * reward + intrinsic, known_team, known_individual)
