"""The high-level policy: the coordinator, a transformer that chooses skills, and its PPO update."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from navrl.agents.core.objective import explained_variance
from navrl.agents.core.optimizer import Optimizer
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.hmasd.options import CoordinatorOptions
from navrl.agents.hmasd.returns import ENDS, INTERVAL_END, ROLLOUT_END, Decisions, smdp_gae
from navrl.agents.hmasd.rollout import KEPT, TeamRollout
from navrl.agents.hmasd.transformer import SMALL_GAIN, DecoderBlock, EncoderBlock, Keys
from navrl.agents.hmasd.update import Update, in_network_units, largest_difference, standardised
from navrl.agents.networks.encoders import ObservationEncoder
from navrl.agents.networks.layers import HIDDEN_GAIN, NetworkOptions, after_norm, linear
from navrl.agents.networks.team import TeamSpec
from navrl.ranks import noise

_MOST_SEQUENCES = 64  # of skills for which tokens are computed once
_STEP_METRICS = (
    "broken",
    "loss/grad_norm",
    "loss/policy",
    "loss/critic",
    "policy/entropy_team",
    "policy/entropy_individual",
    "policy/kl",
    "policy/clip_fraction",
)


def _table(skills: int, width: int) -> nn.Embedding:
    table = nn.Embedding(skills, width)
    nn.init.orthogonal_(table.weight, HIDDEN_GAIN)
    return table


class _Embedding(nn.Sequential):
    """Inputs to tokens."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(nn.LayerNorm(inputs), linear(inputs, width, HIDDEN_GAIN), nn.GELU())

    def forward(self, rows: Tensor) -> Tensor:
        """Return the tokens of rows (..., inputs)."""
        norm, layer, activation = self
        return activation(after_norm(norm, layer, rows))


def _head(width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        linear(width, width, HIDDEN_GAIN),
        nn.GELU(),
        nn.LayerNorm(width),
        linear(width, outputs, SMALL_GAIN),
    )


# ---- the coordinator --------------------------------------------------------------------------


class SkillChoice(NamedTuple):
    """Skills of all positions (N, P), and the log-probability of each given those before it."""

    skills: Tensor
    log_prob: Tensor


class SkillEvaluation(NamedTuple):
    """Log-probability, entropy and value of chosen skills, each (N, P)."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor


class Coordinator(nn.Module):
    """State and observations of all agents to skills: first the team's, then each agent's in order.

    `num_skills` holds the number of skills at each position, of which 0 is the team. The tokens have no
    position: an agent is known by its observation and by the skills before its own, so all agents share
    what is learned.
    """

    unavailable: Tensor
    sequences: Tensor | None  # int64 (sequences, P), the last skill is 0
    places: Tensor | None  # int64 (P - 1,), what each skill adds to a sequence's number

    def __init__(
        self,
        *,
        num_skills: Sequence[int],
        team: TeamSpec,
        network: NetworkOptions,
        options: CoordinatorOptions,
    ) -> None:
        super().__init__()
        self.num_skills, self.positions = tuple(num_skills), len(num_skills)
        width, blocks = options.width, range(options.blocks)
        block = {"width": width, "heads": options.heads}
        self.observation_encoder = ObservationEncoder(team.leaves, network)
        self.state_token = _Embedding(team.state_size, width)
        self.agent_token = _Embedding(self.observation_encoder.outputs, width)
        self.encoder = nn.Sequential(*(EncoderBlock(**block) for _ in blocks))
        self.value = _head(width, 1)
        # One token for the start and each skill of the team; one for each skill of agents before the last.
        self.start = num_skills[0]
        self.team_skill = _table(num_skills[0] + 1, width)
        before_last = max(num_skills[1:-1], default=None)
        self.agent_skill = None if before_last is None else _table(before_last, width)
        self.token_norm = nn.LayerNorm(width)
        self.decoder = nn.ModuleList(DecoderBlock(**block) for _ in blocks)
        self.logits = _head(width, max(num_skills))
        sizes = torch.tensor(num_skills).unsqueeze(-1)
        unavailable = torch.arange(max(num_skills)) >= sizes  # (P, widest)
        self.register_buffer("unavailable", unavailable, persistent=False)
        # The skills before the last in every order, if there are few: their tokens are computed once for all.
        before = [range(number) for number in num_skills[:-1]]
        sequences = places = None
        if math.prod(num_skills[:-1]) <= _MOST_SEQUENCES:
            sequences = torch.tensor([(*chosen, 0) for chosen in itertools.product(*before)])
            places = torch.tensor(
                [math.prod(num_skills[place + 1 : -1]) for place in range(len(before))],
                dtype=torch.int64,
            )
        self.register_buffer("sequences", sequences, persistent=False)
        self.register_buffer("places", places, persistent=False)

    @property
    def last(self) -> nn.Linear:
        """The layer that gives the values."""
        layer: nn.Linear = self.value[-1]  # type: ignore[assignment]
        return layer

    def values(self, state: Tensor, frames: TensorDictBase) -> Tensor:
        """Return the value of each position (N, P), in units of the coordinator."""
        return self._values(self._encoded(state, frames))

    def drawn(self, num_rows: int) -> Tensor:
        """Return the random numbers of a choice for so many rows.

        The most probable skill after they are subtracted from log-probs is a draw, without a host read.
        """
        shape = (num_rows, *self.unavailable.shape)
        return noise.exponential(shape, self.token_norm.weight.detach(), axis=0).log()

    def act(
        self,
        state: Tensor,
        frames: TensorDictBase,
        *,
        deterministic: bool,
        drawn: Tensor | None = None,
    ) -> SkillChoice:
        """Choose skills for states (N, features) and the frames (N, A) of the agents."""
        if drawn is None and not deterministic:
            drawn = self.drawn(state.shape[0])
        encoded = self._encoded(state, frames)
        skills = torch.zeros(
            *state.shape[:-1], self.positions, dtype=torch.int64, device=state.device
        )
        sequences = self._keys_of_sequences()
        log_probs: list[Tensor] = []
        for position in range(self.positions):
            keys = self._keys(skills, sequences)
            # Row i does not depend on skills that are chosen later; nor, with one block, on rows before it.
            rows = slice(position if len(self.decoder) == 1 else 0, position + 1)
            log_prob = self._log_probs(encoded, keys, rows)[..., -1, :]
            race = log_prob if drawn is None else log_prob - drawn[:, position]
            skill = race.argmax(-1, keepdim=True)
            log_probs.append(log_prob.gather(-1, skill))
            skills = torch.cat([skills[..., :position], skill, skills[..., position + 1 :]], -1)
        return SkillChoice(skills, torch.cat(log_probs, -1))

    def evaluate(self, state: Tensor, frames: TensorDictBase, skills: Tensor) -> SkillEvaluation:
        """Evaluate skills (N, P) that were chosen, in one pass."""
        encoded = self._encoded(state, frames)
        keys = self._keys(skills, self._keys_of_sequences())
        log_probs = self._log_probs(encoded, keys, slice(0, self.positions))
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        log_prob = log_probs.gather(-1, skills.unsqueeze(-1)).squeeze(-1)
        return SkillEvaluation(log_prob, entropy, self._values(encoded))

    def _encoded(self, state: Tensor, frames: TensorDictBase) -> Tensor:
        """Return tokens of the state and of all agents (N, 1 + A, width)."""
        agents = self.agent_token(self.observation_encoder(frames))
        return self.encoder(torch.cat([self.state_token(state).unsqueeze(-2), agents], -2))

    def _values(self, encoded: Tensor) -> Tensor:
        return self.value(encoded[..., : self.positions, :]).squeeze(-1)

    def _keys_of_sequences(self) -> Keys | None:
        return None if self.sequences is None else self._keys(self.sequences, None)

    def _keys(self, skills: Tensor, sequences: Keys | None) -> Keys:
        """Return the keys of skills (N, P) for the decoder's first block; those of sequences, if known."""
        if sequences is not None and self.places is not None:
            return sequences.of((skills[..., :-1] * self.places).sum(-1))
        start = torch.full_like(skills[..., :1], self.start)
        chosen = [self.team_skill(torch.cat([start, skills[..., :1]], -1)[..., : self.positions])]
        if self.agent_skill is not None:
            chosen.append(self.agent_skill(skills[..., 1:-1]))
        tokens = self.token_norm(nn.functional.gelu(torch.cat(chosen, -2)))
        keys: Keys = self.decoder[0].keys(tokens)  # type: ignore[operator]
        return keys

    def _log_probs(self, encoded: Tensor, keys: Keys, rows: slice) -> Tensor:
        """Return (N, rows, widest); row i is for the choice at position i, given those before it."""
        encoded, keys = encoded[..., rows, :], keys.first(rows.stop)
        first, *others = self.decoder
        tokens = first(encoded, keys)
        block: Any  # a DecoderBlock, which nn.ModuleList does not know
        for block in others:
            tokens = block(encoded, block.keys(tokens))
        logits = self.logits(tokens)
        # Not -inf: 0 * -inf is NaN in the entropy and in gradients.
        lowest = torch.finfo(logits.dtype).min / 2
        return logits.masked_fill(self.unavailable[rows], lowest).log_softmax(-1)


class UniformSkills(nn.Module):
    """agent.ablation=no_high: skills drawn uniformly instead of a coordinator."""

    sizes: Tensor

    def __init__(self, num_skills: Sequence[int]) -> None:
        super().__init__()
        self.num_skills, self.positions = tuple(num_skills), len(num_skills)
        self.register_buffer("sizes", torch.tensor(self.num_skills).float(), persistent=False)

    def drawn(self, num_rows: int) -> Tensor:
        """Return random skills for so many rows."""
        skills = [noise.whole(n, (num_rows,), self.sizes.device, axis=0) for n in self.num_skills]
        return torch.stack(skills, -1)

    def act(
        self,
        state: Tensor,
        frames: TensorDictBase,
        *,
        deterministic: bool,
        drawn: Tensor | None = None,
    ) -> SkillChoice:
        """Draw skills, in deterministic play too: no skill is more probable than another."""
        skills = self.drawn(state.shape[0]) if drawn is None else drawn
        return SkillChoice(skills, -self.sizes.log().expand(state.shape[0], -1))


# ---- the update -------------------------------------------------------------------------------


class DecisionBatch(NamedTuple):
    """The decisions of a rollout, one row for each."""

    state: Tensor
    frames: TensorDictBase  # (R, A)
    skills: Tensor  # (R, P)
    log_prob: Tensor  # (R, P)
    advantage: Tensor  # (R, P)
    old_value: Tensor  # (R, P), before the first gradient step
    target: Tensor  # (R, P)


class PreparedDecisions(NamedTuple):
    """The data of an update, computed before its first gradient step."""

    batch: Any  # a DecisionBatch, or None where nothing is learned
    replay_error: Tensor
    same_reward: Tensor  # bool (): all decisions had the same reward
    metrics: dict[str, Tensor]


class HighLevelUpdate:
    """PPO over decisions; every position of the coordinator has its own value."""

    def __init__(
        self,
        coordinator: Coordinator,
        scale: ValueScale,
        options: CoordinatorOptions,
        update: Update,
        interval: int,
    ) -> None:
        self.coordinator, self.scale = coordinator, scale
        self.options, self.update, self.interval = options, update, interval
        self.optimizers = {"coordinator": update.optimizer(coordinator, options.learning_rate)}
        self._gradients = update.gradients(self._loss, coordinator)
        # A tensor, because a compiled loss keeps numbers as they were at its first call.
        self._entropy_coef = coordinator.token_norm.weight.new_zeros(())

    @torch.no_grad()
    def prepare(self, rollout: TeamRollout) -> PreparedDecisions:
        """Compute advantages of all decisions of a rollout, by the coordinator that made them."""
        decide = rollout.reason != KEPT
        rows = decide.nonzero(as_tuple=True)  # the only place that waits for the device
        state, frames, skills = rollout.state[rows], rollout.frames[rows], rollout.chosen[rows]
        evaluation = self.coordinator.evaluate(state, frames, skills)
        value = self.scale.values(evaluation.value)
        decisions = self._decisions(rollout, decide, rows, value)
        end, duration = decisions.end[rows], decisions.duration[rows]
        whole = (end != ROLLOUT_END) | (duration >= self.interval)
        end = torch.where(whole & (end == ROLLOUT_END), INTERVAL_END, end)
        advantage, reward = decisions.advantage[rows], decisions.reward[rows]
        log_prob, target = rollout.log_prob[rows], advantage + value
        metrics = {
            "high/decisions": state.new_tensor(float(len(state))),
            "high/decision_steps": duration.mean(),
            "high/decision_reward": reward.mean(),
            "high/loss/explained_variance": explained_variance(value, target, correction=0),
            **_decision_counts(decide, end),
        }
        # 0 for skills of dead agents, which do nothing; the team's always counts.
        counts = torch.cat([torch.ones_like(log_prob[:, :1]), rollout.alive[rows].float()], -1)
        counts = counts[:, : self.coordinator.positions]
        batch = DecisionBatch(state, frames, skills, log_prob, advantage, value, target)
        if self.options.partial == "drop":
            batch = DecisionBatch(*(column[whole] for column in batch))
            reward, counts = reward[whole], counts[whole]
        advantage = standardised(batch.advantage, self.options.least_deviation)
        return PreparedDecisions(
            batch=batch._replace(advantage=advantage * counts),
            replay_error=largest_difference(evaluation.log_prob, log_prob),
            same_reward=(reward == reward[:1]).all(),
            metrics=metrics,
        )

    def _decisions(
        self, rollout: TeamRollout, decide: Tensor, rows: tuple[Tensor, ...], value: Tensor
    ) -> Decisions:
        """Compute rewards and advantages; the coordinator evaluates only steps whose value counts."""
        shape = (*decide.shape, self.coordinator.positions)
        ends = (rollout.cut & ~rollout.terminated).nonzero(as_tuple=True)
        ahead = self.coordinator.values(rollout.next_state[ends], rollout.next_frames[ends])
        return smdp_gae(
            reward=rollout.reward,
            decide=decide,
            done=rollout.done,
            terminated=rollout.terminated,
            value=value.new_zeros(shape).index_put(rows, value),
            next_value=value.new_zeros(shape).index_put(ends, self.scale.values(ahead)),
            discount=self.update.discount,
            gae_lambda=self.update.ppo.gae_lambda,
            mode=self.options.gamma_mode,
        )

    def fit(
        self, prepared: PreparedDecisions, stopped: Tensor, entropy_share: float
    ) -> dict[str, Tensor]:
        """Take all gradient steps of one iteration; none if all decisions had the same reward.

        Then the gradient is that of entropy and noise alone. It is small, but Adam makes steps of full size
        of it, and where success is rare they undo what it taught before it comes again.
        """
        batch, same_reward = prepared.batch, prepared.same_reward
        old_value, target = in_network_units(
            self.scale, batch.old_value, batch.target, self.coordinator.last, stopped
        )
        self._entropy_coef.fill_(self.options.entropy_coef * entropy_share)
        means = self.update.fit(
            self.optimizers["coordinator"],
            self._gradients,
            batch._replace(old_value=old_value, target=target),
            stopped | same_reward,
            num_epochs=1 if bool(same_reward) else self.options.num_epochs,
        )
        steps = dict(zip(_STEP_METRICS, means, strict=True))
        return {
            **prepared.metrics,
            "high/skipped": same_reward.float(),
            **{f"high/{name}": value for name, value in steps.items()},
        }

    def _loss(self, batch: DecisionBatch) -> tuple[Tensor, Tensor]:
        evaluation = self.coordinator.evaluate(batch.state, batch.frames, batch.skills)
        policy = self.update.policy_terms(evaluation.log_prob - batch.log_prob, batch.advantage)
        critic = self.update.value_loss(evaluation.value, batch.target, batch.old_value)
        loss = policy.loss + critic - self._entropy_coef * evaluation.entropy.mean()
        team, rest = evaluation.entropy[:, 0].mean(), evaluation.entropy[:, 1:]
        individual = rest.mean() if rest.numel() else torch.zeros_like(team)
        row = [policy.loss, critic, team, individual, policy.kl, policy.clip_fraction]
        return loss, torch.stack(row)


class NoHighLevelUpdate:
    """agent.ablation=no_high: skills are drawn, so there is nothing to learn."""

    def __init__(self) -> None:
        self.optimizers: dict[str, Optimizer] = {}

    def prepare(self, rollout: TeamRollout) -> PreparedDecisions:
        """Return no decisions, and a replay error of 0."""
        zero = torch.zeros((), device=rollout.reward.device)
        return PreparedDecisions(None, zero, zero == 0.0, {})

    def fit(
        self, prepared: PreparedDecisions, stopped: Tensor, entropy_share: float
    ) -> dict[str, Tensor]:
        """Learn nothing."""
        return prepared.metrics


def _decision_counts(decide: Tensor, end: Tensor) -> dict[str, Tensor]:
    """Count the decisions by the event that ended them, and by env."""
    counts = decide.sum(1).float()
    return {
        **{f"high/ended_by/{name}": (end == event).sum().float() for name, event in ENDS.items()},
        "high/decisions_per_env/min": counts.min(),
        "high/decisions_per_env/mean": counts.mean(),
        "high/decisions_per_env/max": counts.max(),
        "high/decisions_per_env/std": counts.std(correction=0),
    }
