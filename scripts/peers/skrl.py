"""skrl's PPO in the loop of its own trainer, without a log or checkpoints."""

from typing import Any

import gymnasium
import numpy as np
import torch
from omegaconf import DictConfig
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.resources.schedulers.torch import KLAdaptiveLR
from torch import Tensor, nn

from peers.fights import Fights, Work, network

OWN = {
    "work": {
        "num_epochs": 5,
        "num_minibatches": 4,
        "entropy_coef": 0.0,
        "critic_coef": 1.0,
        "max_grad_norm": 1.0,
    }
}


class _Actor(GaussianMixin, Model):
    def __init__(self, layers: nn.Module, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        GaussianMixin.__init__(self)
        self.layers, self.log_std = layers, nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: dict[str, Tensor], role: str) -> tuple[Tensor, dict[str, Tensor]]:
        return self.layers(inputs["observations"]), {"log_std": self.log_std}


class _Critic(DeterministicMixin, Model):
    def __init__(self, layers: nn.Module, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.layers = layers

    def compute(self, inputs: dict[str, Tensor], role: str) -> tuple[Tensor, dict[str, Any]]:
        return self.layers(inputs["observations"]), {}


class Contestant:
    """iterate() is as many time steps of the trainer as there are between two updates."""

    def __init__(self, cfg: DictConfig, work: Work) -> None:
        self._work, self._fights = work, Fights(cfg)
        features, columns = self._fights.features, self._fights.columns
        spaces: dict[str, Any] = {
            "observation_space": _unbounded(features),
            "action_space": _unbounded(columns),
            "device": "cpu",
        }
        options = PPO_CFG(
            rollouts=work.steps,
            learning_epochs=work.num_epochs,
            mini_batches=work.num_minibatches,
            discount_factor=work.discount,
            gae_lambda=work.gae_lambda,
            learning_rate=work.learning_rate,
            grad_norm_clip=work.max_grad_norm,
            ratio_clip=work.clip_epsilon,
            value_clip=0.2 if work.own else 0.0,
            entropy_loss_scale=work.entropy_coef,
            value_loss_scale=work.critic_coef,
            experiment={"write_interval": 0, "checkpoint_interval": 0},
            **(_recommended(features) if work.own else {}),
        )
        self._agent = PPO(
            models={
                "policy": _Actor(network(features, columns, work), **spaces),
                "value": _Critic(network(features, 1, work), **spaces),
            },
            memory=RandomMemory(memory_size=work.steps, num_envs=work.num_envs, device="cpu"),
            cfg=options,
            **spaces,
        )
        self._agent.init()
        self._agent.enable_training_mode(True)
        self._seen = self._fights.reset()

    def iterate(self) -> None:
        """Collect and learn once."""
        agent, at = self._agent, {"timestep": 0, "timesteps": 10**9}
        for _ in range(self._work.steps):
            agent.pre_interaction(**at)
            with torch.no_grad():
                actions, _ = agent.act(self._seen, None, **at)
                step = self._fights.step(actions)
                agent.record_transition(
                    observations=self._seen,
                    states=None,
                    actions=actions,
                    rewards=step.reward.unsqueeze(-1),
                    next_observations=step.opening,
                    next_states=None,
                    terminated=step.terminated.unsqueeze(-1),
                    truncated=step.truncated.unsqueeze(-1),
                    infos={},
                    **at,
                )
            agent.post_interaction(**at)
            self._seen = step.opening


def _recommended(features: int) -> dict[str, Any]:
    return {
        "learning_rate_scheduler": KLAdaptiveLR,
        "learning_rate_scheduler_kwargs": {"kl_threshold": 0.008},
        "observation_preprocessor": RunningStandardScaler,
        "observation_preprocessor_kwargs": {"size": features, "device": "cpu"},
        "value_preprocessor": RunningStandardScaler,
        "value_preprocessor_kwargs": {"size": 1, "device": "cpu"},
    }


def _unbounded(columns: int) -> gymnasium.Space:
    return gymnasium.spaces.Box(-np.inf, np.inf, (columns,))
