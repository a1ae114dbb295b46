"""Stable-Baselines3's PPO on a vectorised env of numpy arrays, without a log."""

from typing import Any

import gymnasium
import numpy as np
import torch
from omegaconf import DictConfig
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch import nn

from peers.fights import Fights, Work

OWN = {"work": {"num_epochs": 10, "learning_rate": 3e-4, "entropy_coef": 0.0}}


class _Env(VecEnv):
    def __init__(self, cfg: DictConfig) -> None:
        self._fights = Fights(cfg)
        boxes = (_box(size) for size in (self._fights.features, self._fights.columns))
        self.render_mode = None
        super().__init__(cfg.num_envs, *boxes)
        self._quiet: list[dict[str, Any]] = [{} for _ in range(cfg.num_envs)]

    def reset(self) -> np.ndarray:
        return self._fights.reset().numpy()

    def step_async(self, actions: np.ndarray) -> None:
        self._asked = torch.from_numpy(actions)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        step = self._fights.step(self._asked)
        done, infos = (step.terminated | step.truncated).numpy(), self._quiet
        if done.any():
            infos, last, cut = list(infos), step.upcoming.numpy(), step.truncated.numpy()
            for ended in done.nonzero()[0]:
                info = {"terminal_observation": last[ended], "TimeLimit.truncated": cut[ended]}
                infos[ended] = info
        return step.opening.numpy(), step.reward.numpy(), done, infos

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name)] * self.num_envs

    # A VecEnv must have the next two; training never asks them anything.
    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, **options: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


class Contestant:
    """iterate() learns for one iteration's number of time steps."""

    def __init__(self, cfg: DictConfig, work: Work) -> None:
        sizes = list(work.hidden_sizes)
        self._frames, env = work.frames, _Env(cfg)
        self._ppo = PPO(
            "MlpPolicy",
            VecNormalize(env, gamma=work.discount) if work.own else env,
            learning_rate=work.learning_rate,
            n_steps=work.steps,
            batch_size=work.minibatch,
            n_epochs=work.num_epochs,
            gamma=work.discount,
            gae_lambda=work.gae_lambda,
            clip_range=work.clip_epsilon,
            ent_coef=work.entropy_coef,
            vf_coef=work.critic_coef,
            max_grad_norm=work.max_grad_norm,
            policy_kwargs={
                "net_arch": {"pi": sizes, "vf": sizes},
                "activation_fn": nn.Tanh if work.own else nn.ReLU,
            },
            device="cpu",
        )

    def iterate(self) -> None:
        """Collect and learn once."""
        self._ppo.learn(self._frames, log_interval=None, reset_num_timesteps=False)


def _box(columns: int) -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(-1.0, 1.0, (columns,))
