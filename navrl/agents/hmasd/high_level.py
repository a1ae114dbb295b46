"""How the coordinator learns: PPO over decisions, every position with a value of its own."""

from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.agents.core.gradients import fit
from navrl.agents.core.objective import explained_variance
from navrl.agents.core.optimizer import Optimizer
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.hmasd import timing
from navrl.agents.hmasd.blocks import Block
from navrl.agents.hmasd.coordinator import Coordinator
from navrl.agents.hmasd.learning import (
    in_units,
    largest_difference,
    optimizer_of,
    policy_terms,
    standardised,
    value_loss,
)
from navrl.agents.hmasd.options import CoordinatorOptions, Update
from navrl.agents.hmasd.returns import BATCH_END, INTERVAL_END, Decisions, check_returns, smdp_gae

_FITTED = (
    "broken",
    "grad_norm",
    "loss_pi",
    "loss_v",
    "entropy_team",
    "entropy_indiv",
    "kl",
    "clipfrac",
)


class DecisionBatch(NamedTuple):
    """One row for each decision."""

    state: Tensor
    frames: TensorDictBase  # (R, A)
    skills: Tensor  # (R, P)
    log_prob: Tensor  # (R, P)
    advantage: Tensor  # (R, P)
    before: Tensor  # (R, P) values with which the round began
    target: Tensor  # (R, P)


class Prepared(NamedTuple):
    """What there is to learn, and what is known before the first step."""

    batch: Any  # a DecisionBatch, or None where nothing is learned
    replay_error: Tensor
    idle: Tensor  # bool (), all decisions were paid alike
    metrics: dict[str, Tensor]


class HighLevel:
    """Learns which skills pay."""

    def __init__(
        self,
        coordinator: Coordinator,
        scale: ValueScale,
        options: CoordinatorOptions,
        update: Update,
        interval: int,
    ) -> None:
        check_returns(mode=options.gamma_mode, partial=options.partial)
        self.coordinator, self.scale = coordinator, scale
        self.options, self.update, self.interval = options, update, interval
        self.optimizers = {"coordinator": optimizer_of(coordinator, options.learning_rate, update)}
        self._entropy_coef = options.entropy_coef

    @torch.no_grad()
    def prepare(self, block: Block) -> Prepared:
        """Advantages of all decisions of a rollout, by the coordinator that made them."""
        decide = block.reason != timing.NONE
        rows = decide.nonzero(as_tuple=True)  # the one thing that waits for the device
        state, frames, skills = block.state[rows], block.frames[rows], block.chosen[rows]
        judged = self.coordinator.evaluate(state, frames, skills)
        value = self.scale.values(judged.value)
        found = self._decisions(block, decide, rows, value)
        ended = found.end[rows]
        whole = (ended != BATCH_END) | (found.duration[rows] >= self.interval)
        ended = torch.where(whole & (ended == BATCH_END), INTERVAL_END, ended)
        advantage, reward = found.advantage[rows], found.reward[rows]
        log_prob, target = block.log_prob[rows], advantage + value
        metrics = {
            "high/n": state.new_tensor(float(len(state))),
            "high/duration_mean": found.duration[rows].mean(),
            "high/reward_mean": reward.mean(),
            "high/ev": explained_variance(value, target, correction=0),
            **_accounts(decide, ended),
        }
        replay_error = largest_difference(judged.log_prob, log_prob)
        # 0 for skills of the dead, which do nothing; the team's always counts.
        counts = torch.cat([torch.ones_like(log_prob[:, :1]), block.alive[rows].float()], -1)
        counts = counts[:, : self.coordinator.positions]
        batch = DecisionBatch(state, frames, skills, log_prob, advantage, value, target)
        if self.options.partial == "drop":
            batch = DecisionBatch(*(column[whole] for column in batch))
            reward, counts = reward[whole], counts[whole]
        idle = (reward == reward[:1]).all()
        advantage = standardised(batch.advantage, self.options.least_deviation)
        return Prepared(batch._replace(advantage=advantage * counts), replay_error, idle, metrics)

    def _decisions(
        self, block: Block, decide: Tensor, rows: tuple[Tensor, ...], value: Tensor
    ) -> Decisions:
        """What came of the decisions; the coordinator looks only at steps whose value is asked for."""
        shape = (*decide.shape, self.coordinator.positions)
        ends = (block.cut & ~block.terminated).nonzero(as_tuple=True)
        ahead = self.coordinator.values(block.next_state[ends], block.next_frames[ends])
        return smdp_gae(
            reward=block.reward,
            decide=decide,
            done=block.done,
            terminated=block.terminated,
            value=value.new_zeros(shape).index_put(rows, value),
            next_value=value.new_zeros(shape).index_put(ends, self.scale.values(ahead)),
            discount=self.update.discount,
            gae_lambda=self.update.ppo.gae_lambda,
            mode=self.options.gamma_mode,
        )

    def fit(self, prepared: Prepared, stopped: Tensor, entropy_share: float) -> dict[str, Tensor]:
        """All gradient steps of a round; where no decision was paid more than another, only a look at one.

        Then the gradient is that of entropy and noise alone. It is small, but Adam makes steps of full size
        of it, and where success is rare they undo what it taught before it comes again.
        """
        batch = prepared.batch
        before, target = in_units(
            self.scale, batch.before, batch.target, self.coordinator.last, stopped
        )
        metrics = {**prepared.metrics, "high/skipped": prepared.idle.float()}
        self._entropy_coef = self.options.entropy_coef * entropy_share
        means = fit(
            self.optimizers["coordinator"],
            self._loss,
            batch._replace(before=before, target=target),
            num_epochs=1 if bool(prepared.idle) else self.options.num_epochs,
            num_minibatches=1,  # decisions are few
            parts=self.update.ppo.accumulate,
            stopped=stopped | prepared.idle,
        )
        fitted = dict(zip(_FITTED, means.unbind(), strict=True))
        entropies = {f"skill/{key}": fitted.pop(key) for key in ("entropy_team", "entropy_indiv")}
        return metrics | entropies | {f"high/{key}": value for key, value in fitted.items()}

    def _loss(self, batch: DecisionBatch) -> tuple[Tensor, Tensor]:
        judged = self.coordinator.evaluate(batch.state, batch.frames, batch.skills)
        clipped = policy_terms(
            judged.log_prob - batch.log_prob, batch.advantage, self.update.ppo.clip_epsilon
        )
        error = value_loss(self.update, judged.value, batch.target, batch.before)
        loss = clipped.loss + error - self._entropy_coef * judged.entropy.mean()
        team, rest = judged.entropy[:, 0].mean(), judged.entropy[:, 1:]
        individual = rest.mean() if rest.numel() else torch.zeros_like(team)
        row = [clipped.loss, error, team, individual, clipped.kl, clipped.clip_fraction]
        return loss, torch.stack(row)


class NoHighLevel:
    """agent.ablation=no_high: skills are drawn, so there is nothing to learn."""

    def __init__(self) -> None:
        self.optimizers: dict[str, Optimizer] = {}

    def prepare(self, block: Block) -> Prepared:
        """Nothing that could be wrong."""
        return Prepared(None, torch.zeros((), device=block.reward.device), torch.tensor(True), {})

    def fit(self, prepared: Prepared, stopped: Tensor, entropy_share: float) -> dict[str, Tensor]:
        """Nothing to tell."""
        return prepared.metrics


def _accounts(decide: Tensor, ended: Tensor) -> dict[str, Tensor]:
    """How many decisions there were, by what ended their time and by env."""
    counts = decide.sum(1).float()
    by_reason = {
        f"sync/high_by_reason/{name}": (ended == end).sum().float()
        for name, end in timing.ENDS.items()
    }
    return by_reason | {
        "sync/high_per_env_min": counts.min(),
        "sync/high_per_env_mean": counts.mean(),
        "sync/high_per_env_max": counts.max(),
        "sync/high_per_env_std": counts.std(correction=0),
    }
