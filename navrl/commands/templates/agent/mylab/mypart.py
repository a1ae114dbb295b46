"""agent=mypart: the policy gradient with a learned baseline, for one agent."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from navrl.agents.core.team import INDEPENDENT
from navrl.agents.core.value_scale import value_scale
from navrl.agents.networks.actor_critic import ActorCriticOptions
from navrl.agents.networks.build import build_actor_critic
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite, TensorSpec


class MyPart:
    """Learns from every rollout once, in minibatches; see navrl.contracts.Agent."""

    headline: Mapping[str, str] = MappingProxyType({})  # no console columns of its own
    precision = "fp32"
    skipped_in_a_row = 0

    def __init__(
        self,
        *,
        name: str,
        discount: float,
        learning_rate: float,
        num_minibatches: int,
        network: ActorCriticOptions,
        observation_spec: Composite,
        action_spec: TensorSpec,
        device: torch.device | str,
        num_iterations: int,
    ) -> None:
        self.name, self.discount, self.num_minibatches = name, discount, num_minibatches
        policy, critic = build_actor_critic(
            options=network,
            team=INDEPENDENT,
            compile_mode="off",
            scale=value_scale("none"),
            observation_spec=observation_spec,
            action_spec=action_spec,
        )
        self.policy, self.critic = policy.to(device), critic.to(device)
        parameters = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=learning_rate)

    def update(self, rollout: TensorDictBase) -> dict[str, float]:
        """Make every gradient step of one iteration on (N, T) frames; return metrics."""
        frames = rollout.exclude("policy_version")
        frames.set("return", self.returns(frames))
        rows = frames.reshape(-1)
        order = torch.randperm(rows.shape[0], device=rows.device)
        losses = [self.step(rows[part]) for part in order.chunk(self.num_minibatches)]
        self.policy.version += 1
        return {
            "loss/total": torch.stack(losses).mean().item(),
            "sync/policy_version": float(self.policy.version),
        }

    def step(self, frames: TensorDictBase) -> Tensor:
        """Make one gradient step; return the loss."""
        value = self.critic(frames.copy()).get("state_value").squeeze(-1)
        advantage = frames.get("return") - value
        log_prob = self.policy.get_dist(frames).log_prob(frames.get("action"))
        loss: Tensor = -(log_prob * advantage.detach()).mean() + advantage.square().mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def returns(self, frames: TensorDictBase) -> Tensor:
        """Return discounted returns (N, T); the end of a rollout counts as an end."""
        reward = frames.get(("next", "reward")).squeeze(-1)
        done = frames.get(("next", "done")).squeeze(-1)
        found: Tensor = reward.clone()
        for step in reversed(range(reward.shape[1] - 1)):
            found[:, step] += self.discount * found[:, step + 1] * ~done[:, step]
        return found

    def allow_lag(self, correction: object = None) -> None:
        """Refuse rollouts of older policies."""
        raise ValueError("agent=mypart learns from its own policy only; change collector")

    def check_rollout_size(self, num_envs: int, rollout_steps: int) -> None:
        """Accept every size."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that learning changes."""
        return {
            "policy": dict(self.policy.state_dict()),
            "critic": dict(self.critic.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "policy_version": self.policy.version,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict returned."""
        self.policy.load_state_dict(state["policy"])
        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.policy.version = state["policy_version"]
