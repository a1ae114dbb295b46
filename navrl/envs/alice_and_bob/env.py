"""Alice and Bob as a TorchRL env: the agents are the group "agents", reward and flags are the team's."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torchrl.data import MultiCategorical

from navrl.envs.alice_and_bob.observations import Codes, GridObservation, OneHot
from navrl.envs.alice_and_bob.sim import (
    MOVES,
    Events,
    GridParams,
    GridState,
    advance,
    opening_state,
    won,
)
from navrl.envs.core import specs
from navrl.envs.core.env import BatchedEnv
from navrl.envs.core.rewards import Transition, WeightedReward

_STATISTICS = ("success", "diamond_0", "diamond_1")


class AliceAndBobEnv(BatchedEnv):
    """Everybody steps east, west, north or south, or stays."""

    def __init__(
        self,
        *,
        name: str,
        headline: Mapping[str, str],
        objective: str,
        sim: GridParams,
        observation: GridObservation,
        reward: WeightedReward,
        compile_mode: str | bool,
        num_envs: int,
        device: torch.device | str,
        seed: int,
        first_env_id: int = 0,
    ) -> None:
        self.name, self.headline, self.objective = name, dict(headline), objective
        self._params, self._observation, self._reward = sim.checked(), observation, reward
        self._team = range(sim.num_agents)
        specs.check_objective(objective, _STATISTICS)
        specs.check_observation(observation, {"codes": Codes, "one_hot": OneHot}, name)
        observation.prepare(sim, device)
        reward.prepare(sim, device)
        moves = MultiCategorical([MOVES], shape=(num_envs, sim.num_agents, 1), device=device)
        super().__init__(
            num_envs=num_envs,
            device=device,
            seed=seed,
            first_env_id=first_env_id,
            compile_mode=compile_mode,
            observation_spec=specs.observation_spec(
                observation.leaves,
                num_envs=num_envs,
                num_agents=sim.num_agents,
                state_size=observation.state_size,
                device=device,
            ),
            action_spec=specs.action_spec(moves),
            reward_parts=reward.names,
            statistic_names=_STATISTICS,
            rate_names=_STATISTICS,
        )

    def initial(self, key: Tensor) -> GridState:
        """Everybody somewhere, nothing collected."""
        return opening_state(self._params, key)

    def advance(self, state: GridState, action: Tensor, given: None) -> tuple[GridState, Events]:
        """One step of everybody."""
        return advance(self._params, state, action.squeeze(-1).t())

    def observe(self, state: GridState) -> dict[str, Tensor]:
        """The leaves of the observation kind, and all cells for a critic."""
        told = [self._observation.rows(self._params, state, me) for me in self._team]
        leaves = {
            f"agents/observation/{leaf}": torch.stack([rows[leaf] for rows in told])
            for leaf in self._observation.leaves
        }
        return leaves | {"state": self._observation.state_rows(self._params, state)}

    def judge(self, state: GridState) -> tuple[Tensor, Tensor]:
        """Over with both diamonds; cut when the time is up."""
        return won(state), state.step >= self._params.horizon

    def score(
        self,
        before: GridState,
        after: GridState,
        events: Events,
        terminated: Tensor,
        truncated: Tensor,
    ) -> tuple[Tensor, list[Tensor]]:
        """The configured reward terms."""
        return self._reward(Transition(self._params, before, after, events, terminated, truncated))

    def statistics(self, state: GridState) -> list[Tensor]:
        """Both diamonds, and each of them, as 0 or 1."""
        return [won(state).float(), *state.collected.float()]

    @property
    def params(self) -> GridParams:
        """The rules."""
        return self._params

    @property
    def grid_state(self) -> GridState:
        """The simulator's state, for tests."""
        state: GridState = self._world.state
        return state
