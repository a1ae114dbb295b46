"""agent=ppo: proximal policy optimisation with TorchRL's ClipPPOLoss and GAE."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite, TensorSpec
from torchrl.objectives.value import GAE

from navrl.agents.core.gradients import Gradients
from navrl.agents.core.grouped import minibatches_of
from navrl.agents.core.guards import UpdateGuard, replay_slices, require_fractions
from navrl.agents.core.lag import NoLag, OneVersion
from navrl.agents.core.loss import LossTerms, PPOLoss, explained
from navrl.agents.core.minibatches import Minibatches, in_parts
from navrl.agents.core.optimizer import Optimizer, parameter_groups
from navrl.agents.core.team import ALIVE, CENTRAL, TeamOptions, as_one_agent, inherited
from navrl.agents.core.value_scale import value_scale
from navrl.agents.networks.actor_critic import ActorCriticOptions, resolve_precision
from navrl.agents.networks.build import build_actor_critic
from navrl.agents.networks.layers import NetworkOptions
from navrl.agents.networks.memory import HIDDEN, GruRecurrence, NoRecurrence, check_chunks
from navrl.agents.ppo.gradients import KL, MinibatchGradients

MINIBATCH_KEYS = (
    "observation",
    CENTRAL,
    "action_mask",
    "action",
    "action_log_prob",
    "advantage",
    "value_target",
    "state_value",
    ALIVE,
    HIDDEN,
    ("next", "done"),
)
_CRITIC_KEYS = ("observation", CENTRAL)
VALUE_ROWS = 4096
_GAE_OPTIONS: dict[str, Any] = {
    "value_network": None,  # we compute the values: stock GAE stacks and vmaps, three times slower
    "vectorized": False,  # a loop over time, exact and without synchronisations
}


class PPO:
    """One verb: update(rollout) makes every gradient step of an iteration."""

    lag = NoLag()

    headline: Mapping[str, str] = MappingProxyType({})  # console columns beside the env's

    def __init__(
        self,
        *,
        name: str,
        discount: float,
        gae_lambda: float,
        clip_epsilon: float,
        policy_coef: float,
        entropy_coef: float,
        critic_coef: float,
        value_normalisation: str,
        value_clip: float | None,
        huber_delta: float | None,
        learning_rate: float,
        critic_learning_rate: float | None,
        final_learning_rate: float,
        adam_epsilon: float,
        num_epochs: int,
        num_minibatches: int | Sequence[int],
        accumulate: int,
        max_grad_norm: float,
        max_kl: float | None,
        max_skipped_updates: int,
        replay_tolerance: float,
        team: TeamOptions,
        network: str,
        hidden_sizes: Sequence[int],
        entity_sizes: Sequence[int],
        lidar_encoder: str,
        activation: str,
        rnn: str,
        chunk_length: int,
        precision: str,
        compile_mode: str | bool,
        observation_spec: Composite,
        action_spec: TensorSpec,
        device: torch.device | str,
        num_iterations: int,
    ) -> None:
        require_fractions(discount=discount, gae_lambda=gae_lambda, clip_epsilon=clip_epsilon)
        self.name, self.device, self.max_kl = name, torch.device(device), max_kl
        precision = self.precision = resolve_precision(precision, self.device)
        self.minibatches = Minibatches(num_minibatches, num_epochs, accumulate, num_iterations)
        self.guard = UpdateGuard(
            replay_tolerance=replay_tolerance, max_skipped_updates=max_skipped_updates
        )
        scale = self.value_scale = value_scale(value_normalisation)
        network_options = NetworkOptions(hidden_sizes, entity_sizes, lidar_encoder, activation)
        sizes = ActorCriticOptions(
            network_options, precision, rnn, chunk_length, team, compile_mode
        )
        policy, critic = build_actor_critic(network, sizes, scale, observation_spec, action_spec)
        self.policy, self.critic = policy.to(self.device), critic.to(self.device)
        terms = LossTerms(clip_epsilon, entropy_coef, critic_coef, huber_delta, value_clip)
        self.loss = PPOLoss(self.policy, self.critic, terms.checked(), self.device)
        self.gae = GAE(gamma=discount, lmbda=gae_lambda, device=self.device, **_GAE_OPTIONS)
        groups = parameter_groups(self.policy, self.critic, learning_rate, critic_learning_rate)
        falling: Any = {"final_share": final_learning_rate / learning_rate, "epsilon": adam_epsilon}
        limits: Any = {"max_grad_norm": max_grad_norm, "num_iterations": num_iterations}
        self.optimizer = Optimizer(groups, **falling, **limits)
        self.parameters = self.optimizer.parameters
        whole = MinibatchGradients(self.loss, self.parameters, policy_coef, compile_mode)
        self.gradients = in_parts(whole, self.loss, accumulate)

    def update(self, rollout: TensorDictBase) -> dict[str, float]:
        """All gradient steps of one iteration on (N, T) frames of the current policy version."""
        collector = self.lag.collected_by(rollout, self.policy)
        lag = self.policy.version - collector.version
        self.check_rollout_size(*rollout.shape)
        with torch.no_grad():
            informed = self.policy.with_inputs(self.critic.with_inputs(rollout))
            frames, sharing = as_one_agent(informed)
            replay_error = self._replay_error(frames, collector)
            batch = self._with_advantages(frames, sharing)
            fit = explained(batch)
        # Decided on the device, before the first step: weights never learn from a foreign rollout.
        stopped = replay_error > self.guard.replay_tolerance
        self.value_scale.learn(batch, self.critic.trunk.last, stopped)
        flat = self._memory.rows(batch.select(*MINIBATCH_KEYS, strict=False))
        steps: list[Tensor] = []
        self.lag.remember(self.policy)
        done, generator = self.optimizer.done, self.lag.generator
        indices = self.minibatches.of(len(flat), done, self.device, generator)
        for gradients, index in minibatches_of(flat, indices, self.gradients.of):
            stopped, step = self._step(gradients(index), stopped)
            steps.append(step)
        # The one place of an iteration that reads the device.
        summary = torch.cat([replay_error.reshape(1), fit, _mean_steps(steps)])
        numbers: list[float] = summary.tolist()
        self.guard.check(rollout, replay_error=numbers[0], skipped_steps=numbers[2])
        rows = flat.reshape(-1)
        for part in (self.policy.trunk, self.critic):
            part.update_normalisers(rows)
        self.policy.version += 1
        return self._metrics(numbers, self.optimizer.end_iteration()) | {"sync/lag": float(lag)}

    def allow_lag(self) -> None:
        """Learn from rollouts of the version before as well; ask for it before the first update."""
        self.lag = OneVersion(self.policy)

    @property
    def skipped_in_a_row(self) -> int:
        """The number of iterations in a row whose gradients were not finite."""
        return self.guard.skipped_in_a_row

    def _metrics(self, numbers: list[float], learning_rate: float) -> dict[str, float]:
        """Names for the numbers."""
        replay_error, explained, skipped, halted, grad_norm, *means = numbers
        policy_loss, critic_loss, _, entropy, kl, clip_fraction = means
        return {
            "loss/policy": policy_loss,
            "loss/critic": critic_loss,
            "loss/explained_variance": explained,
            "loss/grad_norm": grad_norm,
            "loss/skipped_steps": skipped,
            "policy/entropy": entropy,
            "policy/kl": kl,
            "policy/clip_fraction": clip_fraction,
            "policy/kl_stopped_steps": halted,
            "policy/learning_rate": learning_rate,
            "sync/replay_error": replay_error,
            "sync/policy_version": float(self.policy.version),
        }

    @property
    def _memory(self) -> NoRecurrence | GruRecurrence:
        """How its actor remembers."""
        return self.policy.trunk.memory

    def check_rollout_size(self, num_envs: int, rollout_steps: int) -> None:
        """Refuse rollouts that do not split into chunks, and these into equal minibatches."""
        length = self._memory.chunk_length
        check_chunks(rollout_steps, length, options="agent")
        self.minibatches.check(num_envs * rollout_steps, length)

    def _replay_error(self, rollout: TensorDictBase, policy: Any) -> Tensor:
        """Largest difference between stored and recomputed log-probs, every row, three instants."""
        frames = replay_slices(rollout)
        again = policy.get_dist(frames).log_prob(frames.get("action"))
        return (again - frames.get("action_log_prob")).abs().max()

    def _with_advantages(self, rollout: TensorDictBase, sharing: int = 1) -> TensorDictBase:
        """A new TensorDict with values, advantages and targets; the collector's own is left alone."""
        batch = rollout.exclude("policy_version")
        batch = batch.set("next", batch.get("next").copy())
        here = self._values(batch)
        for frames, said in ((batch, here), (batch.get("next"), self._values_ahead(batch, here))):
            value, alive = self.value_scale.values(said), frames.get(ALIVE, None)
            frames.set("state_value", value if alive is None else inherited(value, alive, sharing))
        return self.gae(batch)

    def _values_ahead(self, batch: TensorDictBase, here: Tensor) -> Tensor:
        """What the critic says (N, T, 1) of what came next: the next frame, but for ends a look of its own.

        How many end is known on the host of a CPU alone; elsewhere it looks at all of them.
        """
        following = batch.get("next").select(*_CRITIC_KEYS, "done", strict=False)
        if self.device.type != "cpu":
            return self._values(following)
        ended = following.get("done").clone()
        ended[:, -1] = True
        rows, ahead = ended.view(-1).nonzero().squeeze(-1), here.roll(-1, 1)
        flat = following.exclude("done").reshape(-1)
        for part in rows.split(VALUE_ROWS):
            ahead.view(-1, 1)[part] = self._values(flat[part])
        return ahead

    def _values(self, frames: TensorDictBase) -> Tensor:
        """What the critic says (..., 1), by rows that fit the cache: on a CPU twice as fast as at once."""
        flat = frames.select(*_CRITIC_KEYS, strict=False).reshape(-1)
        rows = [self.critic(chunk).get("state_value") for chunk in flat.split(VALUE_ROWS)]
        return torch.cat(rows).view(*frames.shape, 1)

    def _step(self, found: Gradients, stopped: Tensor) -> tuple[Tensor, Tensor]:
        """One gradient step, unless the KL limit was passed or the gradient is not finite."""
        if self.max_kl is not None:
            stopped = stopped | (found.metrics[KL] > self.max_kl)
        broken = self.optimizer.step(found.of_parameters, found.norm, stopped)
        flags = torch.stack([broken.float(), stopped.float(), found.norm])
        return stopped, torch.cat([flags, found.metrics])

    def state_dict(self) -> dict[str, Any]:
        """Everything that learning changes."""
        return {
            "policy": dict(self.policy.state_dict()),
            "critic": dict(self.critic.state_dict()),
            **self.optimizer.state_dict(),
            "policy_version": self.policy.version,
            "lag": self.lag.state_dict(),
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of state_dict, for an agent of the same options."""
        self.policy.load_state_dict(state["policy"])
        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state)
        self.policy.version = state["policy_version"]
        self.lag.load_state_dict(state.get("lag", {}))
        self.guard.skipped_in_a_row = state["skipped_in_a_row"]


def _mean_steps(steps: list[Tensor]) -> Tensor:
    """Means over the gradient steps; counts for the first two columns. Steps after a KL stop count not."""
    rows = torch.stack(steps)
    made = (1.0 - rows[:, 1]) * (1.0 - rows[:, 0])
    means = (torch.where(made.bool().unsqueeze(-1), rows, 0.0)).sum(0) / made.sum().clamp_min(1.0)
    return torch.cat([rows[:, :2].sum(0), means[2:]])
