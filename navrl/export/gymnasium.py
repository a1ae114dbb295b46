"""An env with one agent as a VectorEnv of Gymnasium."""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from navrl.config.checks import ConfigError
from navrl.export import spaces

Observations = dict[str, np.ndarray]


class GymnasiumVectorEnv(VectorEnv[Observations, np.ndarray, np.ndarray]):
    """N simulations that step together; finished ones begin again within the step.

    Where an episode ended, `infos` holds final_obs and the statistics of the env: return, length, ...
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(self, env: EnvBase) -> None:
        if "agents" in env.observation_spec:
            raise ConfigError(
                f"env '{env.name}' has a team; expected an env with one agent; take PettingZooParallelEnv"
            )
        self.env, self.num_envs = env, env.batch_size[0]
        self._read = spaces.observation_space(env.observation_spec, env.action_spec, 1)
        self.single_observation_space = self._read
        self.single_action_space = spaces.action_space(env.action_spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode in every simulation; with a seed the first ones of that seed."""
        if seed is not None:
            self.env.set_seed(seed)
        self._frame = self.env.reset()
        return spaces.observations(self._frame, self._read), {}

    def step(
        self, actions: Any
    ) -> tuple[Observations, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Make one decision in every simulation."""
        frame = self._frame.set("action", spaces.actions(actions, self.env.action_spec))
        stepped, self._frame = self.env.step_and_maybe_reset(frame)
        ahead = stepped.get("next")
        reward, terminated, truncated, done = (
            ahead.get(key).squeeze(-1).cpu().numpy()
            for key in ("reward", "terminated", "truncated", "done")
        )
        infos = self._ends(ahead, done) if done.any() else {}
        seen = spaces.observations(self._frame, self._read)
        return seen, reward.astype(np.float64), terminated, truncated, infos

    def _ends(self, ahead: TensorDictBase, done: np.ndarray) -> dict[str, Any]:
        """Return the last observations and the statistics of the episodes that have ended."""
        last = spaces.observations(ahead, self._read)
        final = np.full(self.num_envs, None, dtype=object)
        for place in done.nonzero()[0]:
            final[place] = {name: rows[place] for name, rows in last.items()}
        rows = np.where(done[:, None], ahead.get("episode").cpu().numpy(), 0.0)
        named = dict(zip(self.env.episode_keys, rows.T, strict=True))
        return {
            "final_obs": final,
            "_final_obs": done,
            "statistics": {**named, **{f"_{name}": done for name in named}},
            "_statistics": done,
        }
