"""rsl_rl's OnPolicyRunner, without a log, a check for NaN, normalisation or clipped values."""

from typing import Any

from omegaconf import DictConfig
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from torch import Tensor

from peers.fights import Fights, Work

OWN = {
    "work": {
        "steps": 24,
        "num_epochs": 5,
        "num_minibatches": 4,
        "learning_rate": 1e-3,
        "critic_coef": 1.0,
        "max_grad_norm": 1.0,
    }
}


class _Env(VecEnv):
    def __init__(self, cfg: DictConfig) -> None:
        self._fights = Fights(cfg)
        self.num_envs, self.num_actions = cfg.num_envs, self._fights.columns
        self.device, self.cfg = "cpu", {}
        self._observations = self._observed(self._fights.reset())

    def _observed(self, rows: Tensor) -> TensorDict:
        return TensorDict({"policy": rows}, [self.num_envs])

    def get_observations(self) -> TensorDict:
        return self._observations

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        step = self._fights.step(actions)
        self._observations = self._observed(step.opening)
        done = step.terminated | step.truncated
        return self._observations, step.reward, done, {"time_outs": step.truncated}


class Contestant:
    """iterate() is one iteration of the runner."""

    def __init__(self, cfg: DictConfig, work: Work) -> None:
        body = {
            "class_name": "MLPModel",
            "hidden_dims": list(work.hidden_sizes),
            "activation": "elu" if work.own else "relu",
            "obs_normalization": work.own,
        }
        options = {
            "num_steps_per_env": work.steps,
            "save_interval": 10**9,
            "check_for_nan": False,
            "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
            "actor": {**body, "distribution_cfg": {"class_name": "GaussianDistribution"}},
            "critic": body,
            "algorithm": {
                "class_name": "PPO",
                "num_learning_epochs": work.num_epochs,
                "num_mini_batches": work.num_minibatches,
                "clip_param": work.clip_epsilon,
                "gamma": work.discount,
                "lam": work.gae_lambda,
                "value_loss_coef": work.critic_coef,
                "entropy_coef": work.entropy_coef,
                "learning_rate": work.learning_rate,
                "max_grad_norm": work.max_grad_norm,
                "use_clipped_value_loss": work.own,
                "schedule": "adaptive" if work.own else "fixed",
            },
        }
        self._runner = OnPolicyRunner(_Env(cfg), options, log_dir=None, device="cpu")

    def iterate(self) -> None:
        """Collect and learn once."""
        self._runner.learn(1)
