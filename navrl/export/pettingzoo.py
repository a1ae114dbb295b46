"""One simulation of a team as a ParallelEnv of PettingZoo."""

from typing import Any

import numpy as np
from gymnasium import spaces as gym_spaces
from pettingzoo import ParallelEnv
from torchrl.envs import EnvBase

from navrl.config.checks import ConfigError
from navrl.export import spaces

Observation = dict[str, Any]


class PettingZooParallelEnv(ParallelEnv[str, Observation, np.ndarray]):
    """The team of one simulation; an agent that dies leaves. Rewards are the agents' own, else the team's.

    An action mask is a part of the observation, with one array for each column of choices.
    """

    def __init__(self, env: EnvBase) -> None:
        if "agents" not in env.observation_spec or tuple(env.batch_size) != (1,):
            raise ConfigError(
                f"env '{env.name}' has batch size {tuple(env.batch_size)}; expected one simulation of a "
                "team; build it with num_envs=1, or take GymnasiumVectorEnv for one agent"
            )
        self.env = env
        self.metadata = {"name": env.name, "render_modes": []}
        self.render_mode = None
        group, self._action_spec = (
            env.observation_spec["agents"],
            env.full_action_spec["agents", "action"],
        )
        self.possible_agents = [f"agent_{place}" for place in range(group.shape[1])]
        self.agents: list[str] = []
        self._read = spaces.observation_space(group, self._action_spec, 2)
        self._moves = spaces.action_space(self._action_spec)
        seen = dict(self._read.items())
        if isinstance(self._moves, gym_spaces.MultiDiscrete) and spaces.MASK in seen:
            parts = map(gym_spaces.MultiBinary, self._moves.nvec.tolist())
            seen[spaces.MASK] = gym_spaces.Tuple(parts)
        self._seen = gym_spaces.Dict(seen)

    def observation_space(self, agent: str) -> gym_spaces.Dict:
        """Return what every agent observes."""
        return self._seen

    def action_space(self, agent: str) -> Any:
        """Return what every agent may do."""
        return self._moves

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Begin an episode; with a seed the first one of that seed."""
        if seed is not None:
            self.env.set_seed(seed)
        self._frame = self.env.reset()
        self.agents = [*self.possible_agents]
        return self._observations(self.agents), {name: {} for name in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Make one decision of the living agents; infos hold the statistics where the episode ended."""
        idle = np.zeros(self._moves.shape, self._moves.dtype)
        moves = np.stack([actions.get(name, idle) for name in self.possible_agents])
        frame = self._frame.set(("agents", "action"), spaces.actions(moves, self._action_spec))
        ahead = self.env.step(frame).get("next")
        acting, self._frame = self.agents, ahead.exclude("reward")
        group, over = ahead.get("agents"), bool(ahead.get("done"))
        terminated, truncated = (bool(ahead.get(key)) for key in ("terminated", "truncated"))
        own = group.get(
            "reward", ahead.get("reward").expand(1, len(self.possible_agents)).unsqueeze(-1)
        )
        rewards = dict(zip(self.possible_agents, own.flatten().tolist(), strict=True))
        alive = group.get("alive", None)
        living = dict.fromkeys(self.possible_agents, True)
        if alive is not None:
            living = dict(zip(self.possible_agents, alive.flatten().tolist(), strict=True))
        rows = zip(self.env.episode_keys, ahead.get("episode")[0].tolist(), strict=True)
        infos = {"statistics": dict(rows)} if over else {}
        self.agents = [] if over else [name for name in acting if living[name]]
        return (
            self._observations(acting),
            {name: rewards[name] for name in acting},
            {name: terminated or not living[name] for name in acting},
            {name: truncated and living[name] for name in acting},
            dict.fromkeys(acting, infos),
        )

    def state(self) -> np.ndarray:
        """Return the state of the team, where the env has one."""
        return self._frame.get("state")[0].cpu().numpy()

    def close(self) -> None:
        """Close the env."""
        self.env.close()

    def _observations(self, names: list[str]) -> dict[str, Observation]:
        """Return the last observation of these agents."""
        rows = spaces.observations(self._frame.get("agents")[0], self._read)
        found = {}
        for name in names:
            place = self.possible_agents.index(name)
            found[name] = {leaf: values[place] for leaf, values in rows.items()}
            if isinstance(self._seen.get(spaces.MASK), gym_spaces.Tuple):
                ends = np.cumsum(self._moves.nvec)[:-1]
                found[name][spaces.MASK] = tuple(np.split(found[name][spaces.MASK], ends))
        return found
