"""An env with one agent as a VecEnv of Stable-Baselines3."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from torchrl.envs import EnvBase

from navrl.export.gymnasium import GymnasiumVectorEnv, Observations

_SHORT = {"return": "r", "length": "l"}  # as its logs call them


class StableBaselinesVecEnv(VecEnv):
    """N simulations that step together; finished ones begin again within the step."""

    def __init__(self, env: EnvBase) -> None:
        self.worlds = GymnasiumVectorEnv(env)
        self.render_mode = None
        spaces = self.worlds.single_observation_space, self.worlds.single_action_space
        super().__init__(self.worlds.num_envs, *spaces)

    def reset(self) -> Observations:
        """Begin an episode in every simulation."""
        seed = self._seeds[0]
        self._reset_seeds()
        return self.worlds.reset(seed=seed)[0]

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for step_wait."""
        self._actions = actions

    def step_wait(self) -> tuple[Observations, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Make one decision in every simulation."""
        seen, reward, terminated, truncated, ends = self.worlds.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for place in (terminated | truncated).nonzero()[0]:
            rows = {
                _SHORT.get(name, name): float(row[place])
                for name, row in ends["statistics"].items()
            }
            infos[place] = {
                "terminal_observation": ends["final_obs"][place],
                "TimeLimit.truncated": bool(truncated[place]),
                "episode": {name: value for name, value in rows.items() if name[0] != "_"},
            }
        return seen, reward.astype(np.float32), terminated | truncated, infos

    def close(self) -> None:
        """Close the env."""
        self.worlds.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the VectorEnv, once for every simulation."""
        return [getattr(self.worlds, attr_name)] * len(self._places(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the VectorEnv, which all simulations share."""
        setattr(self.worlds, attr_name, value)

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **options: Any
    ) -> list[Any]:
        """Call a method of the VectorEnv once; return its result for every simulation."""
        result = getattr(self.worlds, method_name)(*args, **options)
        return [result] * len(self._places(indices))

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for every simulation: nothing is wrapped."""
        return [False] * len(self._places(indices))

    def _places(self, indices: Any) -> Sequence[int]:
        found: Sequence[int] = list(self._get_indices(indices))
        return found
