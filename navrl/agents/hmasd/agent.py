"""agent=hmasd: a team learns skills and when to use them, from one synchronous rollout after another.

A coordinator chooses a skill for the team and one for every agent, for `k` steps; a shared actor plays them.
Discriminators tell skills apart by where they lead, and agents are paid for being told apart. After each
rollout all of them learn from it, and only from it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.data import Composite, TensorSpec

from navrl.agents.core.guards import UpdateGuard, require_positive, require_version
from navrl.agents.core.optimizer import Optimizer
from navrl.agents.hmasd.ablations import setting
from navrl.agents.hmasd.blocks import block_of
from navrl.agents.hmasd.coordinator import Coordinator
from navrl.agents.hmasd.discrimination import Discrimination
from navrl.agents.hmasd.high_level import HighLevel, NoHighLevel
from navrl.agents.hmasd.learning import entropy_share
from navrl.agents.hmasd.low_level import LowLevel
from navrl.agents.hmasd.networks import networks
from navrl.agents.hmasd.options import (
    ActorOptions,
    CoordinatorOptions,
    DiscriminatorOptions,
    IntrinsicOptions,
    PPOOptions,
    Update,
    check_options,
)
from navrl.agents.hmasd.usage import broken_steps, usage
from navrl.agents.networks.layers import NetworkOptions
from navrl.agents.networks.memory import check_chunks
from navrl.agents.networks.team import team_spec
from navrl.config.checks import ConfigError


class HMASD:
    """One verb: update(rollout) makes every gradient step of a round."""

    precision = "fp32"
    headline: Mapping[str, str] = MappingProxyType(
        {
            "version": "sync/policy_version",
            "decisions": "high/n",
            "cut": "sync/high_by_reason/batch_end",
            "replay": "sync/replay_err_high",
        }
    )  # console columns

    def __init__(
        self,
        *,
        name: str,
        ablation: str,
        k: int,
        n_team: int,
        n_indiv: int,
        discount: float,
        coordinator: CoordinatorOptions,
        actor: ActorOptions,
        discriminator: DiscriminatorOptions,
        intrinsic: IntrinsicOptions,
        network: NetworkOptions,
        ppo: PPOOptions,
        max_skipped_updates: int,
        replay_tolerance: float,
        observation_spec: Composite,
        action_spec: TensorSpec,
        device: torch.device | str,
        num_iterations: int,
    ) -> None:
        require_positive(k=k)
        update = self._update = Update(ppo, discount, num_iterations)
        check_options(coordinator, actor, discriminator, update)
        self.name, self.device = name, torch.device(device)
        self.guard = UpdateGuard(
            replay_tolerance=replay_tolerance, max_skipped_updates=max_skipped_updates
        )
        num_agents = team_spec(observation_spec, "hmasd").num_agents
        chosen = self.setting = setting(
            ablation, n_team=n_team, n_indiv=n_indiv, num_agents=num_agents, intrinsic=intrinsic
        )
        built = networks(
            chosen,
            k=k,
            value_normalisation=ppo.value_normalisation,
            network=network,
            coordinator=coordinator,
            actor=actor,
            observation_spec=observation_spec,
            action_spec=action_spec,
        ).to(self.device)
        self.policy, self.critic, self.discriminators = built
        self.parameters = [each for module in built for each in module.parameters()]
        self.low = LowLevel(
            self.policy.actor, self.critic.network, self.critic.scale, actor, update
        )
        team, agent = self.discriminators.team, self.discriminators.agent
        self.telling = Discrimination(team, agent, discriminator, chosen.intrinsic, update)
        self.high: HighLevel | NoHighLevel = NoHighLevel()
        chooser = self.policy.coordinator
        if isinstance(chooser, Coordinator):
            self.high = HighLevel(chooser, self.critic.high_scale, coordinator, update, k)
        self.optimizers: dict[str, Optimizer] = {
            **self.high.optimizers,
            **self.low.optimizers,
            **self.telling.optimizers,
        }

    def update(self, rollout: TensorDictBase) -> dict[str, float]:
        """All gradient steps of one round on (N, T) frames of the current policy version."""
        version = self.policy.version
        require_version(rollout, version)
        self.check_rollout_size(*rollout.shape)
        block = block_of(rollout)
        outcomes = block.outcomes()
        paid = self.telling.pay(outcomes, block.own_reward.flatten(0, 1))
        low = self.low.prepare(block, paid.total.view(block.own_reward.shape))
        high = self.high.prepare(block)
        # Decided before the first step: weights never learn from a foreign rollout.
        errors = torch.stack([low.replay_error, high.replay_error])
        stopped = (errors > self.guard.replay_tolerance).any()
        share = entropy_share(self._update, version)
        metrics = {
            **paid.metrics,
            **usage(
                block,
                team_skills=self.setting.team_skills,
                individual_skills=self.setting.individual_skills,
                version=version,
            ),
            **self.high.fit(high, stopped, share),
            **self.low.fit(low, stopped, share),
            **self.telling.fit(outcomes, stopped),
            "sync/replay_err_low": low.replay_error,
            "sync/replay_err_high": high.replay_error,
        }
        metrics["guard/nonfinite_skips"] = broken_steps(metrics)
        # Everything that is known of the round, in one read of the device.
        numbers = dict(zip(metrics, torch.stack([*metrics.values()]).tolist(), strict=True))
        self.guard.check(
            rollout,
            replay_error=max(numbers["sync/replay_err_low"], numbers["sync/replay_err_high"]),
            skipped_steps=numbers["guard/nonfinite_skips"],
            stale_frames=numbers["sync/stale_frames"],
        )
        self.policy.version += 1
        rates = {name: optimizer.end_iteration() for name, optimizer in self.optimizers.items()}
        return {
            **{name: value for name, value in numbers.items() if "broken" not in name},
            "policy/learning_rate": rates["actor"],
            "policy/entropy_share": share,
            "sync/policy_version": float(self.policy.version),
        }

    def allow_lag(self) -> None:
        """Raise: skills are learned from rollouts of the current version only."""
        raise ConfigError(
            f"agent={self.name} learns from rollouts of its own version only; expected a collector that "
            "waits for it; use collector=sync"
        )

    def check_rollout_size(self, num_envs: int, rollout_steps: int) -> None:
        """Refuse rollouts that do not split into chunks; batches are whole rollouts."""
        length = self.policy.actor.memory.chunk_length
        check_chunks(rollout_steps, length, options="agent.actor")

    @property
    def skipped_in_a_row(self) -> int:
        """The number of iterations in a row whose gradients were not finite."""
        return self.guard.skipped_in_a_row

    def state_dict(self) -> dict[str, Any]:
        """Everything that learning changes."""
        return {
            "policy": dict(self.policy.state_dict()),
            "critic": dict(self.critic.state_dict()),
            "discriminators": dict(self.discriminators.state_dict()),
            "optimizers": {name: each.state_dict() for name, each in self.optimizers.items()},
            "policy_version": self.policy.version,
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of state_dict, for an agent of the same options."""
        self.policy.load_state_dict(state["policy"])
        self.critic.load_state_dict(state["critic"])
        self.discriminators.load_state_dict(state["discriminators"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.policy.version = state["policy_version"]
        self.guard.skipped_in_a_row = state["skipped_in_a_row"]
