"""PPO in JAX with fights in JAX too: one jitted function for a decision, another for an update."""

from typing import Any

import jax
import jax.numpy as jnp
from omegaconf import DictConfig

from peers.fights import Work
from peers.jax_physics import Simulator
from peers.jax_ppo import PPO, Array, Frame


class Contestant:
    """iterate() decides as often as a rollout has steps, then updates; a loop in JAX was slower."""

    def __init__(self, cfg: DictConfig, work: Work) -> None:
        self._work, self._simulator = work, Simulator(cfg)
        self._ppo = PPO(work, self._simulator.fights.features, cfg.seed)
        self._world = self._simulator.packed, self._simulator.opening
        self._decision = jax.jit(self._decide, donate_argnums=1)

    @property
    def gradient_steps(self) -> int:
        """Return the number of optax's steps so far."""
        return self._ppo.gradient_steps

    def iterate(self) -> None:
        """Collect and learn once."""
        frames = []
        for key in self._ppo.step_keys():
            self._world, frame = self._decision(self._ppo.learner.weights, self._world, key)
            frames.append(frame)
        self._ppo.learn(frames, self._world[1])

    def _decide(self, weights: Any, world: tuple[list[Array], Array], key: Array) -> Any:
        packed, seen = world
        action, log_prob, value = self._ppo.act(weights, seen, key)
        rudder, throttle, trigger = action.T
        throttle = (0.5 * (throttle + 1)).clip(0, 1)
        orders = [rudder.clip(-1, 1), throttle, (trigger > 0).astype(action.dtype)]
        packed, (_, reward, done, _, opening) = self._simulator.step(jnp.stack(orders, -1), packed)
        going = 1.0 - done.squeeze(-1).astype(action.dtype)
        return (packed, opening), Frame(seen, action, log_prob, value, reward.squeeze(-1), going)
