"""Shared by all libraries: the work of one iteration, and the fights as rows of plain numbers."""

from collections import deque
from typing import Any, ClassVar, NamedTuple

import torch
from omegaconf import DictConfig
from tensordict import TensorDict
from torch import Tensor, nn

from navrl.config.compose import build, compose
from navrl.run.intervals import Interval, wilson

OPTIONS = ("env=combat", "action=continuous", "agent.network.precision=fp32", "agent.max_kl=null")


class Work(NamedTuple):
    """The work of every library in one iteration."""

    num_envs: int
    steps: int
    hidden_sizes: tuple[int, ...]
    num_epochs: int
    num_minibatches: int
    learning_rate: float
    discount: float
    gae_lambda: float
    clip_epsilon: float
    entropy_coef: float
    critic_coef: float
    max_grad_norm: float
    own: bool = False  # also the other settings that the library's makers recommend

    @property
    def frames(self) -> int:
        """Frames of one iteration."""
        return self.num_envs * self.steps

    @property
    def gradient_steps(self) -> int:
        """Gradient steps of one iteration."""
        return self.num_epochs * self.num_minibatches

    @property
    def minibatch(self) -> int:
        """Frames of one gradient step."""
        return self.frames // self.num_minibatches


def work_of(cfg: DictConfig) -> Work:
    """Return the work of the shipped configuration with its options."""
    agent = cfg.agent
    return Work(
        num_envs=cfg.num_envs,
        steps=cfg.rollout_steps,
        hidden_sizes=tuple(agent.network.hidden_sizes),
        num_epochs=agent.num_epochs,
        num_minibatches=agent.num_minibatches,
        learning_rate=agent.optimizer.learning_rate,
        discount=agent.discount,
        gae_lambda=agent.gae_lambda,
        clip_epsilon=agent.loss.clip_epsilon,
        entropy_coef=agent.loss.entropy_coef,
        critic_coef=agent.loss.critic_coef,
        max_grad_norm=agent.optimizer.max_grad_norm,
    )


def configuration(options: list[str]) -> DictConfig:
    """Return the shipped configuration with these options."""
    return compose("train", [*OPTIONS, *options])


def combat(cfg: DictConfig) -> Any:
    """Return the combat env of navrl."""
    return build(cfg.env)(num_envs=cfg.num_envs, device="cpu", seed=cfg.seed)


class Step(NamedTuple):
    """The result of one decision in every fight."""

    upcoming: Tensor  # observation (N, F) at its end, also of episodes that end
    opening: Tensor  # the same after restarts, from which to go on
    reward: Tensor  # (N,)
    terminated: Tensor  # bool (N,)
    truncated: Tensor  # bool (N,)


class Wins:
    """The results of the latest episodes that ended in any fight, while a `Fights.watcher`."""

    def __init__(self, latest: int) -> None:
        self._results: deque[bool] = deque(maxlen=latest)

    def see(self, env: Any, done: Tensor, episode: Tensor) -> None:
        """Count the rows (..., statistics) of episodes where `done` (...) is set."""
        ended = episode[done]
        self._results.extend((ended[:, list(env.episode_keys).index("win")] > 0.0).tolist())

    @property
    def interval(self) -> Interval:
        """Return the share of wins; all of [0, 1] until there are enough episodes."""
        results = self._results
        return (
            wilson(sum(results), len(results)) if len(results) == results.maxlen else wilson(0, 0)
        )


class Fights:
    """env=combat for a library of Gaussian actions: unbounded columns for rudder, throttle and trigger."""

    columns = 3
    watcher: ClassVar[Wins | None] = None  # of all fights of the process

    def __init__(self, cfg: DictConfig) -> None:
        self.env, self.num_envs = combat(cfg), cfg.num_envs
        self.features: int = self.env.observation_spec["observation", "ego"].shape[-1]

    def reset(self) -> Tensor:
        """Return the first observations (N, F)."""
        return self.env.reset()["observation", "ego"]

    def step(self, action: Tensor) -> Step:
        """Step all fights with actions (N, 3)."""
        rudder, throttle, trigger = action.unbind(-1)
        throttle = (0.5 * (throttle + 1.0)).clamp(0.0, 1.0)
        orders = torch.stack([rudder.clamp(-1.0, 1.0), throttle, (trigger > 0.0).float()], -1)
        root = TensorDict({"action": orders}, [self.num_envs])
        stepped, opening = self.env.step_and_maybe_reset(root)
        after = stepped["next"]
        if self.watcher is not None:
            self.watcher.see(self.env, after["done"].squeeze(-1), after["episode"])
        flags = (after[name].squeeze(-1) for name in ("reward", "terminated", "truncated"))
        return Step(after["observation", "ego"], opening["observation", "ego"], *flags)


def network(inputs: int, outputs: int, work: Work) -> nn.Sequential:
    """Return the layers of an actor or a critic."""
    layers: list[nn.Module] = []
    for width in work.hidden_sizes:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))
