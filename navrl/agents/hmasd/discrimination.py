"""How discriminators learn, and what agents are paid by what they knew while the rollout was collected."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from navrl.agents.core.gradients import fit
from navrl.agents.hmasd.discriminators import (
    AgentDiscriminator,
    Outcomes,
    TeamDiscriminator,
    guessing,
)
from navrl.agents.hmasd.intrinsic import intrinsic_reward
from navrl.agents.hmasd.learning import optimizer_of
from navrl.agents.hmasd.options import DiscriminatorOptions, IntrinsicOptions, Update

_FITTED = ("broken", "grad_norm", "loss", "acc")


class Paid(NamedTuple):
    """What every agent is paid for every step (M, A), and of what it is made in the mean."""

    total: Tensor
    metrics: dict[str, Tensor]


class Discrimination:
    """Two discriminators, which learn from one rollout and are asked about the next."""

    def __init__(
        self,
        team: TeamDiscriminator,
        agent: AgentDiscriminator,
        options: DiscriminatorOptions,
        intrinsic: IntrinsicOptions,
        update: Update,
    ) -> None:
        self.team, self.agent = team, agent
        self.options, self.intrinsic, self.update = options, intrinsic, update
        self.optimizers = {
            "team_discriminator": optimizer_of(team, options.learning_rate, update),
            "agent_discriminator": optimizer_of(agent, options.learning_rate, update),
        }

    @torch.no_grad()
    def pay(self, outcomes: Outcomes, reward: Tensor) -> Paid:
        """Pay of all steps for the env's reward of every agent (M, A)."""
        paid = intrinsic_reward(self.intrinsic, self.team, self.agent, outcomes, reward)
        team, individual = paid.team.mean(), paid.individual.mean()
        metrics = {
            "reward/env_mean": reward.mean(),
            "reward/team_mean": self.intrinsic.lambda_team * team,
            "reward/indiv_mean": self.intrinsic.lambda_indiv * individual,
            "reward/low_total_mean": paid.total.mean(),
            "skill/mi_team": team + self._chance(self.team.out),
            "skill/mi_indiv": individual + self._chance(self.agent.out),
        }
        return Paid(paid.total, metrics)

    def fit(self, outcomes: Outcomes, stopped: Tensor) -> dict[str, Tensor]:
        """All gradient steps of a round."""
        metrics: dict[str, Tensor] = {}
        for name, loss in (("team", self._team_loss), ("agent", self._agent_loss)):
            means = fit(
                self.optimizers[f"{name}_discriminator"],
                loss,
                outcomes,
                num_epochs=self.options.num_epochs,
                num_minibatches=1,
                parts=self.update.ppo.accumulate,
                stopped=stopped,
            )
            who = "team" if name == "team" else "indiv"
            metrics |= {
                f"disc/{key}_{who}": value
                for key, value in zip(_FITTED, means.unbind(), strict=True)
            }
        return metrics

    def _chance(self, out: nn.Linear) -> float:
        """Nats by which guessing is worse than knowing, unless rewards are centred there anyway."""
        return 0.0 if self.intrinsic.center else math.log(out.out_features)

    def _team_loss(self, outcomes: Outcomes) -> tuple[Tensor, Tensor]:
        everybody = torch.ones_like(outcomes.team, dtype=torch.bool)
        loss, right = guessing(self.team(outcomes), outcomes.team, everybody)
        return loss, torch.stack([loss, right])

    def _agent_loss(self, outcomes: Outcomes) -> tuple[Tensor, Tensor]:
        loss, right = guessing(self.agent(outcomes), outcomes.individual, outcomes.alive)
        return loss, torch.stack([loss, right])
