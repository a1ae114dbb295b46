"""How agents learn to act by their skills: PPO in which a team shares actor and critic."""

from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.objectives.value.functional import generalized_advantage_estimate

from navrl.agents.core.gradients import fit
from navrl.agents.core.objective import explained_variance
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.hmasd.blocks import Block
from navrl.agents.hmasd.discoverer import Actor, AgentCritic, Judged, TeamCritic
from navrl.agents.hmasd.learning import (
    in_units,
    largest_difference,
    optimizer_of,
    policy_terms,
    standardised,
    value_loss,
)
from navrl.agents.hmasd.options import ActorOptions, Update
from navrl.agents.networks.distributions import ActionDistribution
from navrl.agents.networks.memory import chunks

_LEAST_DEVIATION = 1e-5
_ACTED = ("broken", "grad_norm", "loss_pi", "entropy", "kl", "clipfrac")
_JUDGED = ("critic_broken", "critic_grad_norm", "loss_v")


class ActionBatch(NamedTuple):
    """One row for each chunk of L steps of an agent; chunks of agents without a memory are single steps."""

    skill: Tensor  # (R, L)
    frames: TensorDictBase  # (R, L)
    action: Tensor  # (R, L, columns)
    log_prob: Tensor  # (R, L)
    advantage: Tensor  # (R, L)
    hidden: Tensor  # (R, H), before the first step
    fresh: Tensor  # (R, L), where an episode began
    weight: Tensor  # (R, L), of mean 1; 0 after an agent has died


class ValueBatch(NamedTuple):
    """One row for each step of a team."""

    state: Tensor
    team: Tensor  # (R,) its skill
    frames: TensorDictBase  # (R, A)
    skill: Tensor  # (R, A)
    before: Tensor  # (R, A) value with which the round began
    target: Tensor  # (R, A)

    @property
    def judged(self) -> Judged:
        """What a critic is told."""
        return Judged(self.state, self.team, self.frames, self.skill)


class Prepared(NamedTuple):
    """What there is to learn, and what is known before the first step."""

    actions: ActionBatch
    values: ValueBatch
    replay_error: Tensor
    metrics: dict[str, Tensor]


class LowLevel:
    """Learns what a skill is."""

    def __init__(
        self,
        actor: Actor,
        critic: TeamCritic | AgentCritic,
        scale: ValueScale,
        options: ActorOptions,
        update: Update,
    ) -> None:
        self.actor, self.critic, self.scale = actor, critic, scale
        self.options, self.update = options, update
        self.optimizers = {
            "actor": optimizer_of(actor, options.learning_rate, update),
            "critic": optimizer_of(critic, options.critic_learning_rate, update),
        }
        self._entropy_coef = options.entropy_coef

    @torch.no_grad()
    def prepare(self, block: Block, pay: Tensor) -> Prepared:
        """Advantages of all steps, for what every agent was paid (N, T, A)."""
        now = Judged(block.state, block.team, block.frames.select(*self.critic.reads), block.skill)
        value = self.scale.values(self.critic(now))
        advantage, target = generalized_advantage_estimate(
            self.update.discount,
            self.update.ppo.gae_lambda,
            value,
            self._next_value(block, value),
            pay,
            *(flag.unsqueeze(-1).expand(pay.shape) for flag in (block.done, block.terminated)),
        )
        batch = self._actions(block, advantage)
        again = _log_prob(self._again(batch), batch)
        return Prepared(
            actions=batch,
            values=ValueBatch(*(column.flatten(0, 1) for column in (*now, value, target))),
            replay_error=largest_difference(again, batch.log_prob),
            metrics={"low/ev": explained_variance(value, target, correction=0)},
        )

    def _actions(self, block: Block, advantage: Tensor) -> ActionBatch:
        """What agents did while they lived, in chunks."""
        length = self.actor.memory.chunk_length
        skill = chunks(block.skill, length)
        shape = [*skill.shape]
        frames = block.frames.apply(lambda rows: chunks(rows, length), batch_size=shape)
        fresh = block.fresh.unsqueeze(-1).expand_as(block.skill)
        alive = chunks(block.alive, length)
        batch = ActionBatch(
            skill=skill,
            frames=frames.exclude("action", "action_log_prob"),
            action=frames.get("action"),
            log_prob=frames.get("action_log_prob"),
            advantage=chunks(advantage, length),
            hidden=chunks(block.hidden, length)[:, 0],
            fresh=chunks(fresh, length),
            weight=alive.float(),
        )
        acted = alive.any(-1)
        batch = ActionBatch(*(column[acted] for column in batch))
        lived, advantage = batch.weight > 0.0, torch.zeros_like(batch.advantage)
        advantage[lived] = standardised(batch.advantage[lived], _LEAST_DEVIATION)
        return batch._replace(advantage=advantage, weight=batch.weight / batch.weight.mean())

    def _again(self, batch: ActionBatch) -> ActionDistribution:
        return self.actor(batch.frames, batch.skill, batch.hidden, batch.fresh)

    def _next_value(self, block: Block, value: Tensor) -> Tensor:
        """Of what follows each step (N, T, A); where nothing does, skills are kept in the end state."""
        following = torch.cat([value[:, 1:], value[:, :1]], 1)
        ends = block.cut.nonzero(as_tuple=True)
        last = (block.next_state, block.team, block.next_frames, block.skill)
        ahead = self.scale.values(self.critic(Judged(*(column[ends] for column in last))))
        return following.index_put(ends, ahead)

    def fit(self, prepared: Prepared, stopped: Tensor, entropy_share: float) -> dict[str, Tensor]:
        """All gradient steps of a round."""
        values = prepared.values
        before, target = in_units(
            self.scale, values.before, values.target, self.critic.last, stopped
        )
        self._entropy_coef = self.options.entropy_coef * entropy_share
        batch = values._replace(before=before, target=target)
        acted, judged = (
            fit(
                self.optimizers[part],
                loss,
                learned,
                num_epochs=self.options.num_epochs,
                num_minibatches=self.options.num_minibatches,
                parts=self.update.ppo.accumulate,
                stopped=stopped,
            )
            for part, loss, learned in (
                ("actor", self._actor_loss, prepared.actions),
                ("critic", self._critic_loss, batch),
            )
        )
        names = (f"low/{name}" for name in (*_ACTED, *_JUDGED))
        return prepared.metrics | dict(zip(names, torch.cat([acted, judged]).unbind(), strict=True))

    def _actor_loss(self, batch: ActionBatch) -> tuple[Tensor, Tensor]:
        dist = self._again(batch)
        entropy = (batch.weight * dist.entropy()).mean()
        clipped = policy_terms(
            _log_prob(dist, batch) - batch.log_prob,
            batch.advantage,
            self.update.ppo.clip_epsilon,
            batch.weight,
        )
        row = torch.stack([clipped.loss, entropy, clipped.kl, clipped.clip_fraction])
        return clipped.loss - self._entropy_coef * entropy, row

    def _critic_loss(self, batch: ValueBatch) -> tuple[Tensor, Tensor]:
        loss = value_loss(self.update, self.critic(batch.judged), batch.target, batch.before)
        return loss, loss.reshape(1)


def _log_prob(dist: ActionDistribution, batch: ActionBatch) -> Tensor:
    """Of what was done; what the dead did is as probable as it was."""
    return torch.where(batch.weight > 0.0, dist.log_prob(batch.action), batch.log_prob)
