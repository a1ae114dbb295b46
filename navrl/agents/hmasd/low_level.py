"""The low-level policy: one actor for all agents that observes its skill, its critics and its PPO update."""

from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn import functional
from torchrl.objectives.value.functional import generalized_advantage_estimate

from navrl.agents.core.objective import explained_variance
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.hmasd.options import ActorOptions
from navrl.agents.hmasd.rollout import TeamRollout
from navrl.agents.hmasd.update import Update, in_network_units, largest_difference, standardised
from navrl.agents.networks.distributions import ActionDistribution
from navrl.agents.networks.encoders import ObservationEncoder
from navrl.agents.networks.heads import BetaHead, CategoricalHead, Head, HybridHead
from navrl.agents.networks.layers import LayerNormMLP, NetworkOptions, linear
from navrl.agents.networks.memory import chunks, recurrence
from navrl.agents.networks.team import TeamSpec

_OUTPUT_GAIN = 0.01
_LEAST_DEVIATION = 1e-5  # of advantages
_LEAST_BIAS = 1e-3  # the norm below which a direction of biases is left out
_ACTOR_METRICS = ("loss/policy", "policy/entropy", "policy/kl", "policy/clip_fraction")


# ---- the actor --------------------------------------------------------------------------------


class Actor(nn.Module):
    """Observation and skill of an agent to a distribution of actions.

    skill_injection=last adds a learned bias of the skill to the inputs of the action head: skills differ
    from the first step on, whatever the observation. input: the skill is an input of the first layer.
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
        self.encoder, self.head = ObservationEncoder(team.leaves, network), head
        self.skills, self.at_input = skills, options.skill_injection != "last"
        self.layers = LayerNormMLP(self.encoder.outputs + skills * self.at_input, network)
        self.out = linear(self.layers.outputs, head.outputs, _OUTPUT_GAIN)
        self.memory = recurrence(
            options.rnn, self.layers.outputs, options.chunk_length, options="agent.actor"
        )
        biases = initial_biases(options.skill_init, skills, options.skill_init_std, head)
        self.bias = nn.Parameter(biases) if options.skill_injection != "input" else None

    def step(
        self, frames: TensorDictBase, skill: Tensor, hidden: Tensor
    ) -> tuple[ActionDistribution, Tensor]:
        """Return the distribution of every row of frames (...) with skills (...), and the hidden state."""
        rows, hidden = self.memory.step(self._features(frames, skill), hidden)
        return self._distribution(rows, frames, skill), hidden

    def forward(
        self, frames: TensorDictBase, skill: Tensor, hidden: Tensor, fresh: Tensor
    ) -> ActionDistribution:
        """Return the distribution of chunks of steps (R, L); `hidden` is the state before the first step."""
        rows = self.memory(self._features(frames, skill), hidden, fresh)
        return self._distribution(rows, frames, skill)

    def _features(self, frames: TensorDictBase, skill: Tensor) -> Tensor:
        rows = self.encoder(frames)
        if self.at_input:
            rows = torch.cat([rows, functional.one_hot(skill, self.skills).to(rows)], -1)
        return self.layers(rows)

    def _distribution(
        self, rows: Tensor, frames: TensorDictBase, skill: Tensor
    ) -> ActionDistribution:
        outputs = self.out(rows)
        if self.bias is not None:
            outputs = outputs + self.bias[skill]
        return self.head.distribution(outputs, frames)


def initial_biases(kind: str, number: int, std: float, head: Head) -> Tensor:
    """Return biases (number, outputs), one row for each skill, with the mean norm of Gaussian ones.

    pairs: every skill prefers two outputs, every two outputs have a skill. Whichever two actions a task
    needs together, some skill does both from the start, and a skill that is never tried is never learned.
    spread: both ways along the axes of a random orthonormal basis; even, but the directions are random.
    gaussian: independent; whole directions may be missing.
    """
    if kind == "gaussian":
        return std * torch.randn(number, head.outputs)
    centre = _centring(_groups(head))
    freedom = round(float(centre.trace()))
    rows = _pairs(centre, number) if kind == "pairs" else _spread(centre, number, freedom)
    return std * freedom**0.5 * rows


def _pairs(centre: Tensor, number: int) -> Tensor:
    """Return neighbours first, then wider pairs, so that few skills use all outputs; then the opposites."""
    outputs = len(centre)
    rows = torch.cat(
        [
            (centre + centre.roll(-apart, 0))[: outputs if 2 * apart < outputs else outputs // 2]
            for apart in range(1, outputs // 2 + 1)
        ]
    )
    rows = rows[rows.norm(dim=-1) > _LEAST_BIAS]
    if len(rows) == 0:  # two outputs that compete only with each other
        rows = centre
    rows = rows / rows.norm(dim=-1, keepdim=True)
    whole = torch.cat([rows, -rows])
    return whole.repeat(-(-number // len(whole)), 1)[:number]


def _spread(centre: Tensor, number: int, freedom: int) -> Tensor:
    """Return both directions of the axes of as many random bases as are needed."""
    rows: list[Tensor] = []
    while len(rows) < number:
        basis = torch.linalg.qr(centre @ torch.randn(len(centre), freedom))[0]
        rows += [signed for axis in basis.unbind(-1) for signed in (axis, -axis)]
    return torch.stack(rows[:number])


def _centring(groups: Tensor) -> Tensor:
    """Return the matrix that subtracts the mean of every group: adding to a whole group changes nothing."""
    same = (groups.unsqueeze(0) == groups.unsqueeze(1)).float()
    return torch.eye(len(groups)) - same / same.sum(-1, keepdim=True)


def _groups(head: Head) -> Tensor:
    """Return the group of every output: the choices of a column, or the two parameters of an interval."""
    if isinstance(head, CategoricalHead):
        sizes = torch.tensor(head.choices)
        return torch.arange(len(sizes)).repeat_interleave(sizes)
    if isinstance(head, BetaHead):
        return torch.arange(len(head.low)).repeat(2)
    if isinstance(head, HybridHead):
        bounded = _groups(head.bounded)
        return torch.cat([bounded, _groups(head.binary) + bounded.max() + 1])
    raise TypeError(f"no biases for a {type(head).__name__}; add its groups to {__name__}")


# ---- the critics ------------------------------------------------------------------------------


class CriticInputs(NamedTuple):
    """The inputs of a critic: states (...) of a team, frames and skills of its agents (..., A)."""

    state: Tensor
    team: Tensor  # the team's skill
    frames: TensorDictBase
    skill: Tensor


class TeamCritic(nn.Module):
    """State and the team's skill to one value for all agents."""

    reads: tuple[str, ...] = ()  # of frames

    def __init__(
        self, *, team: TeamSpec, network: NetworkOptions, skills: int, injection: str
    ) -> None:
        super().__init__()
        self.at_input, self.at_last = injection != "last", injection != "input"
        self.skills = skills
        self.layers = LayerNormMLP(team.state_size + skills * self.at_input, network)
        self.last = linear(self.layers.outputs + skills * self.at_last, 1, _OUTPUT_GAIN)

    def forward(self, inputs: CriticInputs) -> Tensor:
        """Return values (..., A), in units of the critic."""
        skill = functional.one_hot(inputs.team, self.skills).to(inputs.state)
        rows = self.layers(torch.cat([inputs.state, skill], -1) if self.at_input else inputs.state)
        value = self.last(torch.cat([rows, skill], -1) if self.at_last else rows)
        return value.expand(inputs.skill.shape)


class AgentCritic(nn.Module):
    """State, the team's skill, observation and skill of an agent to the value of this agent."""

    reads: tuple[str, ...] = ("observation",)  # of frames

    def __init__(
        self, *, team: TeamSpec, network: NetworkOptions, team_skills: int, skills: int
    ) -> None:
        super().__init__()
        self.team_skills, self.skills = team_skills, skills
        self.encoder = ObservationEncoder(team.leaves, network)
        width = team.state_size + self.encoder.outputs + team_skills + skills
        self.layers = LayerNormMLP(width, network)
        self.last = linear(self.layers.outputs, 1, _OUTPUT_GAIN)

    def forward(self, inputs: CriticInputs) -> Tensor:
        """Return values (..., A), in units of the critic."""
        observation = self.encoder(inputs.frames)
        team = functional.one_hot(inputs.team, self.team_skills).to(observation)
        shared = torch.cat([inputs.state, team], -1).unsqueeze(-2)
        shared = shared.expand(*observation.shape[:-1], -1)
        own = functional.one_hot(inputs.skill, self.skills).to(observation)
        return self.last(self.layers(torch.cat([shared, observation, own], -1))).squeeze(-1)


# ---- the update -------------------------------------------------------------------------------


class ActionBatch(NamedTuple):
    """The actions of agents in chunks of L steps, one row for each; L is 1 without a memory."""

    skill: Tensor  # (R, L)
    frames: TensorDictBase  # (R, L)
    action: Tensor  # (R, L, columns)
    log_prob: Tensor  # (R, L)
    advantage: Tensor  # (R, L)
    hidden: Tensor  # (R, H), before the first step
    fresh: Tensor  # (R, L), where an episode began
    weight: Tensor  # (R, L), of mean 1; 0 after an agent has died


class ValueBatch(NamedTuple):
    """The steps of a team, one row for each."""

    state: Tensor
    team: Tensor  # (R,), the team's skill
    frames: TensorDictBase  # (R, A)
    skill: Tensor  # (R, A)
    old_value: Tensor  # (R, A), before the first gradient step
    target: Tensor  # (R, A)

    @property
    def inputs(self) -> CriticInputs:
        """The inputs of the critic."""
        return CriticInputs(self.state, self.team, self.frames, self.skill)


class PreparedSteps(NamedTuple):
    """The data of an update, computed before its first gradient step."""

    actions: ActionBatch
    values: ValueBatch
    replay_error: Tensor
    metrics: dict[str, Tensor]


class LowLevelUpdate:
    """PPO for the actor and the critic that all agents share."""

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
            "actor": update.optimizer(actor, options.learning_rate),
            "critic": update.optimizer(critic, options.critic_learning_rate),
        }
        self._actor_gradients = update.gradients(self._actor_loss, actor)
        self._critic_gradients = update.gradients(self._critic_loss, critic)
        # A tensor, because a compiled loss keeps numbers as they were at its first call.
        self._entropy_coef = actor.out.weight.new_zeros(())

    @torch.no_grad()
    def prepare(self, rollout: TeamRollout, reward: Tensor) -> PreparedSteps:
        """Compute advantages of all steps for the low-level reward of every agent (N, T, A)."""
        observed = rollout.frames.select(*self.critic.reads)
        inputs = CriticInputs(rollout.state, rollout.team, observed, rollout.skill)
        value = self.scale.values(self.critic(inputs))
        flags = (rollout.done, rollout.terminated)
        advantage, target = generalized_advantage_estimate(
            self.update.discount,
            self.update.ppo.gae_lambda,
            value,
            self._next_value(rollout, value),
            reward,
            *(flag.unsqueeze(-1).expand(reward.shape) for flag in flags),
        )
        batch = self._actions(rollout, advantage)
        replayed = _log_prob(self._distribution(batch), batch)
        return PreparedSteps(
            actions=batch,
            values=ValueBatch(*(column.flatten(0, 1) for column in (*inputs, value, target))),
            replay_error=largest_difference(replayed, batch.log_prob),
            metrics={
                "low/loss/explained_variance": explained_variance(value, target, correction=0)
            },
        )

    def _next_value(self, rollout: TeamRollout, value: Tensor) -> Tensor:
        """Return the values after each step (N, T, A); end states keep the skills before them."""
        following = torch.cat([value[:, 1:], value[:, :1]], 1)
        ends = rollout.cut.nonzero(as_tuple=True)
        last = (rollout.next_state, rollout.team, rollout.next_frames, rollout.skill)
        ahead = self.scale.values(self.critic(CriticInputs(*(column[ends] for column in last))))
        return following.index_put(ends, ahead)

    def _actions(self, rollout: TeamRollout, advantage: Tensor) -> ActionBatch:
        """Cut the actions of living agents into chunks."""
        length = self.actor.memory.chunk_length
        skill, alive = chunks(rollout.skill, length), chunks(rollout.alive, length)
        frames = rollout.frames.apply(lambda rows: chunks(rows, length), batch_size=[*skill.shape])
        fresh = rollout.fresh.unsqueeze(-1).expand_as(rollout.skill)
        batch = ActionBatch(
            skill=skill,
            frames=frames.exclude("action", "action_log_prob"),
            action=frames.get("action"),
            log_prob=frames.get("action_log_prob"),
            advantage=chunks(advantage, length),
            hidden=chunks(rollout.hidden, length)[:, 0],
            fresh=chunks(fresh, length),
            weight=alive.float(),
        )
        acted = alive.any(-1)
        batch = ActionBatch(*(column[acted] for column in batch))
        lived, advantage = batch.weight > 0.0, torch.zeros_like(batch.advantage)
        advantage[lived] = standardised(batch.advantage[lived], _LEAST_DEVIATION)
        return batch._replace(advantage=advantage, weight=batch.weight / batch.weight.mean())

    def _distribution(self, batch: ActionBatch) -> ActionDistribution:
        return self.actor(batch.frames, batch.skill, batch.hidden, batch.fresh)

    def fit(
        self, prepared: PreparedSteps, stopped: Tensor, entropy_share: float
    ) -> dict[str, Tensor]:
        """Take all gradient steps of one iteration."""
        values = prepared.values
        old_value, target = in_network_units(
            self.scale, values.old_value, values.target, self.critic.last, stopped
        )
        self._entropy_coef.fill_(self.options.entropy_coef * entropy_share)
        passes = {
            "num_epochs": self.options.num_epochs,
            "num_minibatches": self.options.num_minibatches,
        }
        optimizer, batch = self.optimizers["actor"], prepared.actions
        broken, grad_norm, *means = self.update.fit(
            optimizer, self._actor_gradients, batch, stopped, **passes
        )
        critic_broken, critic_grad_norm, critic_loss = self.update.fit(
            self.optimizers["critic"],
            self._critic_gradients,
            values._replace(old_value=old_value, target=target),
            stopped,
            **passes,
        )
        return {
            **prepared.metrics,
            **{f"low/{name}": mean for name, mean in zip(_ACTOR_METRICS, means, strict=True)},
            "low/broken": broken,
            "low/critic_broken": critic_broken,
            "low/loss/critic": critic_loss,
            "low/loss/grad_norm": grad_norm,
            "low/loss/critic_grad_norm": critic_grad_norm,
        }

    def _actor_loss(self, batch: ActionBatch) -> tuple[Tensor, Tensor]:
        dist = self._distribution(batch)
        entropy = (batch.weight * dist.entropy()).mean()
        log_ratio = _log_prob(dist, batch) - batch.log_prob
        policy = self.update.policy_terms(log_ratio, batch.advantage, batch.weight)
        row = torch.stack([policy.loss, entropy, policy.kl, policy.clip_fraction])
        return policy.loss - self._entropy_coef * entropy, row

    def _critic_loss(self, batch: ValueBatch) -> tuple[Tensor, Tensor]:
        loss = self.update.value_loss(self.critic(batch.inputs), batch.target, batch.old_value)
        return loss, loss.reshape(1)


def _log_prob(dist: ActionDistribution, batch: ActionBatch) -> Tensor:
    """Return the log-probability of the actions; for dead agents the collected one, so their ratio is 1."""
    return torch.where(batch.weight > 0.0, dist.log_prob(batch.action), batch.log_prob)
