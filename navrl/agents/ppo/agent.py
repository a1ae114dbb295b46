"""agent=ppo, ippo, mappo, ppo_navigation and ppo_navrl: proximal policy optimization (arXiv:1707.06347)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data import Composite, TensorSpec
from torchrl.objectives.value import GAE

from navrl.agents.core.guards import REPLAYED, UpdateGuard, replay_slices
from navrl.agents.core.objective import explained_variance
from navrl.agents.core.optimizer import Optimizer, parameter_groups
from navrl.agents.core.team import ALIVE, CENTRAL, TeamOptions, as_one_agent, inherited
from navrl.agents.core.value_scale import value_scale
from navrl.agents.networks.actor_critic import ActorCriticOptions, resolve_precision
from navrl.agents.networks.build import build_actor_critic
from navrl.agents.networks.memory import HIDDEN, check_chunks
from navrl.agents.ppo.lag import Correction, NoLag, OneVersion, VTrace
from navrl.agents.ppo.update import (
    STEP_METRICS,
    GradientSteps,
    LossOptions,
    Minibatches,
    MinibatchGradients,
    PPOLoss,
)
from navrl.config.checks import require_number
from navrl.ranks import Ranks
from navrl.storage.schema import check

MINIBATCH_KEYS = (
    *("observation", CENTRAL, "action_mask", "action", "action_log_prob", HIDDEN, ALIVE),
    *("advantage", "value_target", "state_value", ("next", "done")),
)
_CRITIC_KEYS = ("observation", CENTRAL)
VALUE_ROWS = 4096  # frames that the critic looks at together
# Frames after ends are filled up to a multiple: oneDNN keeps kernels of every number of rows.
_END_ROWS = VALUE_ROWS // 4
_GAE_OPTIONS: dict[str, Any] = {
    "value_network": None,  # we compute the values: stock GAE stacks and vmaps, three times slower
    "vectorized": False,  # a loop over time, exact and without synchronizations
}


class OptimizerOptions(NamedTuple):
    """The group agent.optimizer."""

    learning_rate: float
    critic_learning_rate: float | None
    final_learning_rate: float
    adam_epsilon: float
    max_grad_norm: float


class PPO:
    """Proximal policy optimization for one agent or a team: act with `policy`, learn with update()."""

    headline: Mapping[str, str] = MappingProxyType({})  # console columns beside the env's
    lag: NoLag = NoLag()
    ranks = Ranks()

    def __init__(
        self,
        *,
        name: str,
        discount: float,
        gae_lambda: float,
        num_epochs: int,
        num_minibatches: int | Sequence[int],
        accumulate: int,
        max_kl: float | None,
        loss: LossOptions,
        value_normalisation: str,
        optimizer: OptimizerOptions,
        network: ActorCriticOptions,
        team: TeamOptions,
        compile_mode: str | bool,
        max_skipped_updates: int,
        replay_tolerance: float,
        observation_spec: Composite,
        action_spec: TensorSpec,
        device: torch.device | str,
        num_iterations: int,
    ) -> None:
        require_number("agent.discount", discount, least=0.0, most=1.0)
        require_number("agent.gae_lambda", gae_lambda, least=0.0, most=1.0)
        loss.check()
        self.name, self.device = name, torch.device(device)
        self.precision = resolve_precision(network.precision, self.device)
        self.value_scale = value_scale(value_normalisation)
        self.policy, self.critic = build_actor_critic(
            options=replace(network, precision=self.precision),
            team=team,
            compile_mode=compile_mode,
            scale=self.value_scale,
            observation_spec=observation_spec,
            action_spec=action_spec,
        )
        self.policy, self.critic = self.policy.to(self.device), self.critic.to(self.device)
        self.gae = GAE(gamma=discount, lmbda=gae_lambda, device=self.device, **_GAE_OPTIONS)
        self.guard = UpdateGuard(replay_tolerance, max_skipped_updates)
        self.minibatches = Minibatches(
            num_minibatches=num_minibatches,
            num_epochs=num_epochs,
            accumulate=accumulate,
            num_iterations=num_iterations,
        )
        self.optimizer = _optimizer(self.policy, self.critic, optimizer, num_iterations)
        self.parameters = self.optimizer.parameters
        self.steps = GradientSteps(
            minibatches=self.minibatches,
            gradients=MinibatchGradients(
                loss=PPOLoss(self.policy, self.critic, loss),
                parameters=self.parameters,
                parts=accumulate,
                compile_mode=compile_mode,
            ),
            optimizer=self.optimizer,
            max_kl=max_kl,
        )

    def update(self, rollout: TensorDictBase) -> dict[str, float]:
        """Make all gradient steps of one iteration on (N, T) frames of one policy version."""
        collector = self.lag.collected_by(rollout, self.policy)
        newest = self.policy.version
        lag = newest - rollout.get_non_tensor("policy_version", default=newest)
        self.check_rollout_size(*rollout.shape)
        with torch.no_grad():
            frames, sharing = self.frames_of(rollout)
            replay_error = _replay_error(frames, collector)
            batch = self.advantages(frames, sharing)
            explained = explained_variance(
                batch.get("state_value"), batch.get("value_target"), batch.get(ALIVE, None)
            )
        # Decided on the device, before the first step: weights never learn from a foreign rollout.
        stopped = replay_error > self.guard.replay_tolerance
        self.value_scale.learn(batch, self.critic.trunk.last, stopped)
        self.lag.remember(self.policy)
        flat = self.policy.trunk.memory.rows(batch.select(*MINIBATCH_KEYS, strict=False))
        means = self.steps.take(flat, stopped, self.lag.generator)
        # The one place of an iteration that reads the device.
        scalars = torch.stack([replay_error, explained, *self.lag.statistics])
        numbers = torch.cat([scalars, means]).tolist()
        checked = ("sync/replay_error", "loss/explained_variance", *self.lag.metric_names)
        names = (*checked, *STEP_METRICS)
        metrics = dict(zip(names, numbers, strict=True))
        self.guard.check(
            rollout,
            replay_error=metrics["sync/replay_error"],
            skipped_steps=metrics["loss/skipped_steps"],
        )
        rows = flat.reshape(-1)
        for part in (self.policy.trunk, self.critic):
            part.update_normalisers(rows)
        self.policy.version += 1
        return metrics | {
            "policy/learning_rate": self.optimizer.end_iteration(),
            "sync/policy_version": float(self.policy.version),
            "sync/lag": float(lag),
        }

    def frames_of(self, rollout: TensorDictBase) -> tuple[TensorDictBase, int]:
        """Return the rollout as frames (N, T) of one agent, and how many agents share a reward."""
        return as_one_agent(self.policy.with_inputs(self.critic.with_inputs(rollout)))

    def advantages(self, frames: TensorDictBase, sharing: int = 1) -> TensorDictBase:
        """Return a copy of the frames with values, advantages and value targets."""
        batch = frames.exclude("policy_version")
        batch = batch.set("next", batch.get("next").copy())
        here = self.values(batch)
        ahead = self._next_values(batch, here)
        for part, outputs in ((batch, here), (batch.get("next"), ahead)):
            value, alive = self.value_scale.values(outputs), part.get(ALIVE, None)
            part.set("state_value", value if alive is None else inherited(value, alive, sharing))
        return self.lag.with_advantages(batch, self.gae, self.log_probs)

    def log_probs(self, frames: TensorDictBase) -> Tensor:
        """Return the log-probs (N, T) of the actions by the current policy."""
        flat = frames.select(*REPLAYED, strict=False).reshape(-1)
        rows = [
            self.policy.get_dist(chunk).log_prob(chunk.get("action"))
            for chunk in flat.split(VALUE_ROWS)
        ]
        return torch.cat(rows).view(frames.shape)

    def values(self, frames: TensorDictBase) -> Tensor:
        """Return the critic's outputs (..., 1), by rows that fit the cache: twice as fast on a CPU.

        Ranks take them in turns.
        """
        flat = frames.select(*_CRITIC_KEYS, strict=False).reshape(-1)
        rows = [
            self.critic(chunk).get("state_value")
            if number % self.ranks.size == self.ranks.rank
            else torch.zeros(len(chunk), 1, device=self.device)
            for number, chunk in enumerate(flat.split(VALUE_ROWS))
        ]
        return self.ranks.all_reduce(torch.cat(rows)).view(*frames.shape, 1)

    def _next_values(self, batch: TensorDictBase, here: Tensor) -> Tensor:
        """Return the critic's outputs (N, T, 1) for the observations after each step.

        Most are those of the next frame; only where an episode or the rollout ends the critic looks again.
        The number of ends is known on the host of a CPU alone; elsewhere it looks at all frames.
        """
        following = batch.get("next").select(*_CRITIC_KEYS, "done", strict=False)
        if self.device.type != "cpu":
            return self.values(following)
        ended = following.get("done").clone()
        ended[:, -1] = True
        rows, ahead = ended.view(-1).nonzero().squeeze(-1), here.roll(-1, 1)
        flat = following.exclude("done").reshape(-1)
        filled = nn.functional.pad(rows, (0, -len(rows) % _END_ROWS))  # with the first frame
        ahead.view(-1, 1)[rows] = self.values(flat[filled])[: len(rows)]
        return ahead

    def check_rollout_size(self, num_envs: int, rollout_steps: int) -> None:
        """Raise about rollouts that do not split into chunks, and these into equal minibatches."""
        length = self.policy.trunk.memory.chunk_length
        check_chunks(rollout_steps, length, options="agent.network")
        self.minibatches.check(num_envs * rollout_steps, length)

    def share_gradients(self, ranks: Ranks) -> None:
        """Compute values and gradients together with other ranks, which update with the same rollouts."""
        self.ranks = self.steps.gradients.ranks = ranks
        self.minibatches.shards = ranks.shards

    def allow_lag(self, correction: Correction | None = None) -> None:
        """Learn from rollouts of older versions; to be called before the first update.

        Without a correction from those of the version before.
        """
        self.lag = OneVersion(self.policy) if correction is None else VTrace(correction)

    @property
    def skipped_in_a_row(self) -> int:
        """Return how many of the latest iterations had a gradient that was not finite."""
        return self.guard.skipped_in_a_row

    def state_dict(self) -> dict[str, Any]:
        """Return everything that learning changes."""
        return {
            "policy": dict(self.policy.state_dict()),
            "critic": dict(self.critic.state_dict()),
            **self.optimizer.state_dict(),
            "policy_version": self.policy.version,
            "lag": self.lag.state_dict(),
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict of an agent with the same options returned."""
        own = self.state_dict() | self.optimizer.schema() | {"lag": self.lag.schema()}
        check({"lag": {}, **state}, own, "agent")
        self.policy.load_state_dict(state["policy"])
        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state)
        self.policy.version = state["policy_version"]
        self.lag.load_state_dict(state.get("lag", {}))
        self.guard.skipped_in_a_row = state["skipped_in_a_row"]


def _replay_error(frames: TensorDictBase, policy: Any) -> Tensor:
    """Return the largest difference between stored and recomputed log-probs, at three steps of every row.

    Without the policy that collected there is nothing to compare with.
    """
    if policy is None:
        return torch.zeros((), device=frames.get("action").device)
    slices = replay_slices(frames)
    recomputed = policy.get_dist(slices).log_prob(slices.get("action"))
    return (recomputed - slices.get("action_log_prob")).abs().max()


def _optimizer(
    policy: Any, critic: Any, options: OptimizerOptions, num_iterations: int
) -> Optimizer:
    for option in ("learning_rate", "critic_learning_rate", "adam_epsilon", "max_grad_norm"):
        value = getattr(options, option)
        if value is not None:
            require_number(f"agent.optimizer.{option}", value, above=0.0)
    return Optimizer(
        parameter_groups(policy, critic, options.learning_rate, options.critic_learning_rate),
        final_share=options.final_learning_rate / options.learning_rate,
        epsilon=options.adam_epsilon,
        max_grad_norm=options.max_grad_norm,
        num_iterations=num_iterations,
    )
