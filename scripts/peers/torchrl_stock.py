"""TorchRL's own components with their default settings: Collector, GAE, ReplayBuffer, ClipPPOLoss."""

from typing import Any

import torch
from omegaconf import DictConfig
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Categorical, Composite, LazyTensorStorage, ReplayBuffer, Unbounded
from torchrl.data.replay_buffers import SamplerWithoutReplacement
from torchrl.envs import EnvBase
from torchrl.modules import IndependentNormal, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from peers.fights import Fights, Work, network


class _Env(EnvBase):
    """The fights by the book: _step and _reset, and all else is left to EnvBase."""

    def __init__(self, cfg: DictConfig) -> None:
        super().__init__(device="cpu", batch_size=[cfg.num_envs])
        self._fights, shape = Fights(cfg), (cfg.num_envs,)
        self.observation_spec = Composite(
            observation=Unbounded((*shape, self._fights.features)), shape=shape
        )
        self.action_spec = Unbounded((*shape, self._fights.columns))
        self.reward_spec = Unbounded((*shape, 1))
        flag = Categorical(2, shape=(*shape, 1), dtype=torch.bool)
        names = ("done", "terminated", "truncated")
        self.full_done_spec = Composite({name: flag.clone() for name in names}, shape=shape)

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        step = self._fights.step(tensordict["action"])
        self._opening = step.opening
        terminated, truncated = step.terminated.unsqueeze(-1), step.truncated.unsqueeze(-1)
        flags = {
            "done": terminated | truncated,
            "terminated": terminated,
            "truncated": truncated,
        }
        after = {"observation": step.upcoming, "reward": step.reward.unsqueeze(-1), **flags}
        return TensorDict(after, self.batch_size)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDict:
        # Who ended has begun its next episode in _step already.
        whole = tensordict is None or "_reset" not in tensordict
        opening = self._fights.reset() if whole else self._opening
        never = torch.zeros(*self.batch_size, 1, dtype=torch.bool)
        flags = {name: never.clone() for name in ("done", "terminated", "truncated")}
        return TensorDict({"observation": opening, **flags}, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        pass


class Contestant:
    """iterate() is the loop of TorchRL's PPO tutorial, without its transforms."""

    def __init__(self, cfg: DictConfig, work: Work) -> None:
        env = _Env(cfg)
        features, columns = env.observation_spec["observation"].shape[-1], Fights.columns
        body = nn.Sequential(network(features, 2 * columns, work), NormalParamExtractor())
        actor = ProbabilisticActor(
            TensorDictModule(body, ["observation"], ["loc", "scale"]),
            in_keys=["loc", "scale"],
            distribution_class=IndependentNormal,
            return_log_prob=True,
        )
        critic = ValueOperator(network(features, 1, work), in_keys=["observation"])
        self._work = work
        self._gae = GAE(gamma=work.discount, lmbda=work.gae_lambda, value_network=critic)
        self._loss = ClipPPOLoss(
            actor,
            critic,
            clip_epsilon=work.clip_epsilon,
            entropy_coeff=work.entropy_coef,
            critic_coeff=work.critic_coef,
            normalize_advantage=True,
        )
        self._adam = torch.optim.Adam(self._loss.parameters(), lr=work.learning_rate)
        self._memory = ReplayBuffer(
            storage=LazyTensorStorage(work.frames),
            sampler=SamplerWithoutReplacement(),
            batch_size=work.minibatch,
        )
        self._rollouts = iter(
            Collector(env, actor, frames_per_batch=work.frames, total_frames=-1, device="cpu")
        )

    def iterate(self) -> None:
        """Collect and learn once."""
        rollout = next(self._rollouts)
        with torch.no_grad():
            self._gae(rollout)
        for _ in range(self._work.num_epochs):
            self._memory.extend(rollout.reshape(-1))
            for _ in range(self._work.num_minibatches):
                found = self._loss(self._memory.sample())
                total = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
                total.backward()
                nn.utils.clip_grad_norm_(self._loss.parameters(), self._work.max_grad_norm)
                self._adam.step()
                self._adam.zero_grad()
