"""PPO in JAX with optax's Adam, written for navrl: actions in one jitted function, each update in another.

The fights are those of all libraries, which JAX reads where they lie in memory. XLA has one thread, as
torch. Episodes are cut at every end, also by the time limit.
"""

import os

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from omegaconf import DictConfig

from peers.fights import Fights, Work

jax.config.update("jax_enable_x64", True)  # the simulator's random numbers are hashes of int64
Array = Any


class Frame(NamedTuple):
    """What is learned from; fields (T, N, ...) of a rollout."""

    seen: Array
    action: Array
    log_prob: Array
    value: Array
    reward: Array
    going: Array  # 0 where an episode ended, else 1


class Learner(NamedTuple):
    """Everything that an update changes."""

    weights: Any
    optimizer: Any


def forward(layers: list[tuple[Array, Array]], rows: Array) -> Array:
    """Return the outputs of a network of ReLUs."""
    for weight, bias in layers[:-1]:
        rows = jax.nn.relu(rows @ weight + bias)
    return rows @ layers[-1][0] + layers[-1][1]


def _layers(key: Array, sizes: list[int]) -> list[tuple[Array, Array]]:
    keys, pairs = jax.random.split(key, len(sizes) - 1), list(itertools.pairwise(sizes))
    gains = [2.0**0.5] * (len(pairs) - 1) + [0.01]
    return [
        (
            jax.nn.initializers.orthogonal(gain)(k, pair, jnp.float32),
            jnp.zeros(pair[1], jnp.float32),
        )
        for k, pair, gain in zip(keys, pairs, gains, strict=True)
    ]


def _log_prob(weights: Any, mean: Array, action: Array) -> Array:
    z = (action - mean) * jnp.exp(-weights["log_std"])
    return (-0.5 * z * z - weights["log_std"] - 0.9189385332046727).sum(-1)


class PPO:
    """The learner, and what it does; `act` is to be jitted by the caller."""

    def __init__(self, work: Work, features: int, seed: int) -> None:
        self._work = work
        self._shuffles = np.random.default_rng(seed)
        sizes = [features, *work.hidden_sizes]
        actor, critic, self._key = jax.random.split(jax.random.key(seed), 3)
        weights = {
            "actor": _layers(actor, [*sizes, Fights.columns]),
            "critic": _layers(critic, [*sizes, 1]),
            "log_std": jnp.zeros(Fights.columns, jnp.float32),
        }
        self._adam = optax.chain(
            optax.clip_by_global_norm(work.max_grad_norm), optax.adam(work.learning_rate, eps=1e-5)
        )
        start = Learner(weights, self._adam.init(weights))
        self.learner = jax.device_put(start, jax.devices()[0])  # else the second call compiles too
        self._update = jax.jit(self._updated, donate_argnums=0)

    @property
    def gradient_steps(self) -> int:
        """Return the number of optax's steps so far."""
        return int(self.learner.optimizer[1][0].count)

    def step_keys(self) -> Array:
        """Return a random key for every step of a rollout."""
        self._key, key = jax.random.split(self._key)
        return jax.random.split(key, self._work.steps)

    def learn(self, frames: list[Frame], seen: Array) -> None:
        """Make all gradient steps of a rollout, after which `seen` was observed."""
        work = self._work
        # By numpy, because a random order of all frames takes XLA 15 ms.
        shuffled = [self._shuffles.permutation(work.frames) for _ in range(work.num_epochs)]
        orders = np.stack(shuffled).astype(np.int32).reshape(work.gradient_steps, work.minibatch)
        self.learner = jax.block_until_ready(self._update(self.learner, frames, seen, orders))

    def act(self, weights: Any, seen: Array, key: Array) -> tuple[Array, Array, Array]:
        """Return drawn actions, their log-probs, and values."""
        mean = forward(weights["actor"], seen)
        noise = jax.random.normal(key, mean.shape, mean.dtype)
        action = mean + jnp.exp(weights["log_std"]) * noise
        value = forward(weights["critic"], seen).squeeze(-1)
        return action, _log_prob(weights, mean, action), value

    def _updated(self, learner: Learner, steps: list[Frame], seen: Array, orders: Array) -> Learner:
        frames = Frame(*map(jnp.stack, zip(*steps, strict=True)))
        advantage = self._advantages(
            frames, last=forward(learner.weights["critic"], seen).squeeze(-1)
        )
        columns = (*frames[:3], advantage, advantage + frames.value)
        flat = [column.reshape(-1, *column.shape[2:]) for column in columns]
        return jax.lax.scan(
            lambda state, rows: self._step(state, [column[rows] for column in flat]),
            learner,
            orders,
        )[0]

    def _advantages(self, frames: Frame, last: Array) -> Array:
        discount, gae_lambda = self._work.discount, self._work.gae_lambda

        def back(carried: tuple[Array, Array], row: Any) -> Any:
            (advantage, ahead), (value, reward, going) = carried, row
            delta = reward + discount * ahead * going - value
            advantage = delta + discount * gae_lambda * going * advantage
            return (advantage, value), advantage

        rows = (frames.value, frames.reward, frames.going)
        return jax.lax.scan(back, (jnp.zeros_like(last), last), rows, reverse=True)[1]

    def _step(self, state: Learner, minibatch: list[Array]) -> Any:
        weights, optimizer = state
        gradients = jax.grad(self._loss)(weights, *minibatch)
        updates, optimizer = self._adam.update(gradients, optimizer)
        return Learner(optax.apply_updates(weights, updates), optimizer), None

    def _loss(
        self, weights: Any, seen: Array, action: Array, old: Array, advantage: Array, target: Array
    ) -> Array:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        ratio = jnp.exp(_log_prob(weights, forward(weights["actor"], seen), action) - old)
        clipped = ratio.clip(1 - self._work.clip_epsilon, 1 + self._work.clip_epsilon)
        policy = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
        error = jnp.square(forward(weights["critic"], seen).squeeze(-1) - target).mean()
        entropy = (weights["log_std"] + 1.4189385332046727).sum()
        return policy + self._work.critic_coef * error - self._work.entropy_coef * entropy


class Contestant:
    """iterate() steps the compiled fights, then calls the jitted update."""

    def __init__(self, cfg: DictConfig, work: Work) -> None:
        self._fights = Fights(cfg)
        self._ppo = PPO(work, self._fights.features, cfg.seed)
        self._act = jax.jit(self._ppo.act)
        self._seen = _shared(self._fights.reset())

    @property
    def gradient_steps(self) -> int:
        """Return the number of optax's steps so far."""
        return self._ppo.gradient_steps

    def iterate(self) -> None:
        """Collect and learn once."""
        frames = []
        for key in self._ppo.step_keys():
            action, log_prob, value = self._act(self._ppo.learner.weights, self._seen, key)
            step = self._fights.step(torch.from_numpy(np.asarray(action).copy()))
            going = 1.0 - (step.terminated | step.truncated).float()
            ends = _shared(step.reward), _shared(going)
            frames.append(Frame(self._seen, action, log_prob, value, *ends))
            self._seen = _shared(step.opening)
        self._ppo.learn(frames, self._seen)


def _shared(rows: torch.Tensor) -> Array:
    return jnp.from_dlpack(rows.contiguous())
