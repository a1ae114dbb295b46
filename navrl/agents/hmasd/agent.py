"""agent=hmasd: hierarchical multi-agent skill discovery, synchronous and on-policy.

The high-level policy, a coordinator, chooses a skill for the team and one for every agent, for `k` steps; the
low-level policy, an actor that all agents share, acts by them. Discriminators tell skills apart by the states
that follow, and the actor's reward grows with their log-probabilities. Every rollout is learned from once.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data import Composite, TensorSpec

from navrl.agents.core.guards import UpdateGuard, require_version
from navrl.agents.core.optimizer import Optimizer
from navrl.agents.core.team import ALIVE, GROUP, STATE, action_of, in_group
from navrl.agents.core.value_scale import ValueScale, value_scale
from navrl.agents.hmasd.discriminators import (
    Discriminators,
    DiscriminatorUpdate,
    IndividualDiscriminator,
    TeamDiscriminator,
)
from navrl.agents.hmasd.high_level import (
    Coordinator,
    HighLevelUpdate,
    NoHighLevelUpdate,
    UniformSkills,
)
from navrl.agents.hmasd.low_level import Actor, AgentCritic, LowLevelUpdate, TeamCritic
from navrl.agents.hmasd.options import (
    ActorOptions,
    CoordinatorOptions,
    DiscriminatorOptions,
    IntrinsicOptions,
    Method,
    PPOOptions,
    ablated_method,
    check_options,
)
from navrl.agents.hmasd.policy import HierarchicalPolicy
from navrl.agents.hmasd.rollout import skill_metrics, team_rollout
from navrl.agents.hmasd.update import Update
from navrl.agents.networks.heads import head_for
from navrl.agents.networks.layers import NetworkOptions
from navrl.agents.networks.memory import check_chunks
from navrl.agents.networks.team import TeamSpec, team_spec
from navrl.config.checks import ConfigError
from navrl.ranks import Ranks
from navrl.storage.schema import check

_FOREVER = 2**31  # steps
_EXTRA_KEYS = (STATE, *in_group(GROUP, "action_mask", ALIVE))  # read where an env has them


class Critic(nn.Module):
    """The low level's critic, and the units of its values and of the coordinator's."""

    def __init__(self, network: TeamCritic | AgentCritic, value_normalisation: str) -> None:
        super().__init__()
        self.network = network
        self.scale: ValueScale = value_scale(value_normalisation)
        self.high_scale: ValueScale = value_scale(value_normalisation)


class HMASD:
    """Hierarchical multi-agent skill discovery; update(rollout) makes every gradient step of an iteration."""

    precision = "fp32"
    headline: Mapping[str, str] = MappingProxyType(
        {
            "version": "sync/policy_version",
            "decisions": "high/decisions",
            "cut": "high/ended_by/rollout_end",
            "replay": "high/sync/replay_error",
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
        compile_mode: str | bool,
        observation_spec: Composite,
        action_spec: TensorSpec,
        device: torch.device | str,
        num_iterations: int,
    ) -> None:
        check_options(k, discount, coordinator, actor, discriminator, ppo)
        self.name, self.device = name, torch.device(device)
        self.guard = UpdateGuard(replay_tolerance, max_skipped_updates)
        team = team_spec(observation_spec, "hmasd")
        self.method = ablated_method(
            ablation,
            n_team=n_team,
            n_indiv=n_indiv,
            num_agents=team.num_agents,
            intrinsic=intrinsic,
        )
        networks = _Networks(self.method, team, network)
        self.policy = networks.policy(
            k, coordinator, actor, observation_spec, action_spec, compile_mode
        )
        self.critic = Critic(networks.critic(actor), ppo.value_normalisation)
        self.discriminators = networks.discriminators()
        modules = (self.policy, self.critic, self.discriminators)
        self.parameters = [p for module in modules for p in module.to(self.device).parameters()]
        self.settings = Update(ppo, discount, num_iterations, compile_mode)
        self.high: HighLevelUpdate | NoHighLevelUpdate = NoHighLevelUpdate()
        if isinstance(self.policy.coordinator, Coordinator):
            self.high = HighLevelUpdate(
                self.policy.coordinator, self.critic.high_scale, coordinator, self.settings, k
            )
        self.low = LowLevelUpdate(
            self.policy.actor, self.critic.network, self.critic.scale, actor, self.settings
        )
        self.discriminator = DiscriminatorUpdate(
            self.discriminators, discriminator, self.method.intrinsic, self.settings
        )
        self.optimizers: dict[str, Optimizer] = {
            **self.high.optimizers,
            **self.low.optimizers,
            **self.discriminator.optimizers,
        }

    def update(self, rollout: TensorDictBase) -> dict[str, float]:
        """Make all gradient steps of one iteration on (N, T) frames of the current policy version."""
        version = self.policy.version
        require_version(rollout, version)
        self.check_rollout_size(*rollout.shape)
        share = self.settings.entropy_share(version)
        metrics = self._fit(rollout, share)
        # All metrics of the iteration in one read of the device.
        numbers = dict(zip(metrics, torch.stack([*metrics.values()]).tolist(), strict=True))
        self.guard.check(
            rollout,
            replay_error=max(numbers["low/sync/replay_error"], numbers["high/sync/replay_error"]),
            skipped_steps=numbers["loss/skipped_share"],
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

    def _fit(self, frames: TensorDictBase, entropy_share: float) -> dict[str, Tensor]:
        """Compute rewards and advantages, then fit coordinator, actor, critic and discriminators."""
        rollout = team_rollout(frames)
        outcomes, own_reward = rollout.outcomes(), rollout.own_reward
        reward, metrics = self.discriminator.reward(outcomes, own_reward.flatten(0, 1))
        low = self.low.prepare(rollout, reward.view(own_reward.shape))
        high = self.high.prepare(rollout)
        # Decided before the first step: weights never learn from a foreign rollout.
        errors = torch.stack([low.replay_error, high.replay_error])
        stopped = (errors > self.guard.replay_tolerance).any()
        metrics |= {
            **self.high.fit(high, stopped, entropy_share),
            **self.low.fit(low, stopped, entropy_share),
            **self.discriminator.fit(outcomes, stopped),
            **skill_metrics(
                rollout,
                team_skills=self.method.team_skills,
                individual_skills=self.method.individual_skills,
                version=self.policy.version,
            ),
            "low/sync/replay_error": low.replay_error,
            "high/sync/replay_error": high.replay_error,
        }
        broken = [value for name, value in metrics.items() if "broken" in name]
        return metrics | {"loss/skipped_share": torch.stack(broken).max()}

    def share_gradients(self, ranks: Ranks) -> None:
        """Compute gradients together with other ranks, which update with the same rollouts."""
        self.settings.ranks = ranks

    def allow_lag(self, correction: object = None) -> None:
        """Raise: skills are learned from rollouts of the current version only."""
        raise ConfigError(
            f"agent={self.name} learns from rollouts of its own version only; expected a collector that "
            "waits for it; use collector=sync"
        )

    def check_rollout_size(self, num_envs: int, rollout_steps: int) -> None:
        """Raise ValueError unless rollouts split into chunks; minibatches need not be equal."""
        length = self.policy.actor.memory.chunk_length
        check_chunks(rollout_steps, length, options="agent.actor")

    @property
    def skipped_in_a_row(self) -> int:
        """The number of iterations in a row whose gradients were not finite."""
        return self.guard.skipped_in_a_row

    def state_dict(self) -> dict[str, Any]:
        """Return everything that learning changes."""
        return {
            "policy": dict(self.policy.state_dict()),
            "critic": dict(self.critic.state_dict()),
            "discriminators": dict(self.discriminators.state_dict()),
            "optimizers": {name: part.state_dict() for name, part in self.optimizers.items()},
            "policy_version": self.policy.version,
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict returned, for an agent of the same options."""
        optimizers = {name: part.schema() for name, part in self.optimizers.items()}
        check(state, self.state_dict() | {"optimizers": optimizers}, "agent")
        self.policy.load_state_dict(state["policy"])
        self.critic.load_state_dict(state["critic"])
        self.discriminators.load_state_dict(state["discriminators"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.policy.version = state["policy_version"]
        self.guard.skipped_in_a_row = state["skipped_in_a_row"]


class _Networks:
    """The builder of all networks of a method for a team."""

    def __init__(self, method: Method, team: TeamSpec, network: NetworkOptions) -> None:
        self._method, self._num_agents = method, team.num_agents
        self._shared: dict[str, Any] = {"team": team, "network": network}

    def policy(
        self,
        k: int,
        coordinator: CoordinatorOptions,
        actor: ActorOptions,
        observation_spec: Composite,
        action_spec: TensorSpec,
        compile_mode: str | bool,
    ) -> HierarchicalPolicy:
        """Build coordinator and actor for the specs of an env."""
        method, shared = self._method, self._shared
        chooser: Coordinator | UniformSkills = UniformSkills(method.num_skills)
        if method.coordinated:
            chooser = Coordinator(num_skills=method.num_skills, options=coordinator, **shared)
        head = head_for(action_of(action_spec, GROUP))
        known = observation_spec.keys(include_nested=True)
        return HierarchicalPolicy(
            coordinator=chooser,
            actor=Actor(head=head, skills=method.individual_skills, options=actor, **shared),
            interval=k if method.coordinated else _FOREVER,
            num_agents=self._num_agents,
            extra_keys=[key for key in _EXTRA_KEYS if key in known],
            compile_mode=compile_mode,
        )

    def critic(self, actor: ActorOptions) -> TeamCritic | AgentCritic:
        """Build the critic that agent.actor.critic names."""
        method, shared = self._method, self._shared
        if actor.critic == "both":
            return AgentCritic(
                team_skills=method.team_skills, skills=method.individual_skills, **shared
            )
        return TeamCritic(skills=method.team_skills, injection=actor.skill_injection, **shared)

    def discriminators(self) -> Discriminators:
        """Build the discriminators."""
        method, shared = self._method, self._shared
        return Discriminators(
            TeamDiscriminator(skills=method.team_skills, **shared),
            IndividualDiscriminator(
                team_skills=method.team_skills, skills=method.individual_skills, **shared
            ),
        )
