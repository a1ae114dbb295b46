"""The env of Alice and Bob: agents are the group "agents", reward and flags are the team's."""

from typing import Unpack

import torch
from torch import Tensor
from torchrl.data import Composite, MultiCategorical, TensorSpec

from navrl.envs.alice_and_bob.observations import GridObservation
from navrl.envs.alice_and_bob.sim import (
    MOVES,
    Events,
    GridParams,
    GridState,
    advance,
    initial_state,
    won,
)
from navrl.envs.core import specs
from navrl.envs.core.env import BatchedEnv, EnvOptions
from navrl.envs.core.rewards import WeightedReward


class AliceAndBobEnv(BatchedEnv):
    """Agents on a grid that step east, west, north or south, or stay."""

    statistic_names = rate_names = ("success", "diamond_0", "diamond_1")

    def __init__(
        self,
        *,
        sim: GridParams,
        observation: GridObservation,
        reward: WeightedReward,
        **options: Unpack[EnvOptions],
    ) -> None:
        super().__init__(params=sim.checked(), observation=observation, reward=reward, **options)

    def make_specs(self) -> tuple[Composite, TensorSpec]:
        """Return the specs of what the agents observe, and of their moves."""
        shape = (*self.batch_size, self.params.num_agents, 1)
        moves = MultiCategorical([MOVES], shape=shape, device=self.device)
        return specs.team_specs(self._observation.leaves, self._observation.state_size, moves)

    def initial(self, key: Tensor) -> GridState:
        """Return the agents on random cells, with nothing collected."""
        return initial_state(self.params, key)

    def advance(self, state: GridState, action: Tensor, given: None) -> tuple[GridState, Events]:
        """Move all agents by one step."""
        return advance(self.params, state, action.squeeze(-1).t())

    def observe(self, state: GridState) -> dict[str, Tensor]:
        """Return the observation of every agent, and all cells for a centralised critic."""
        team = range(self.params.num_agents)
        views = [self._observation.rows(self.params, state, me) for me in team]
        leaves = {
            f"agents/observation/{leaf}": torch.stack([rows[leaf] for rows in views])
            for leaf in self._observation.leaves
        }
        return leaves | {"state": self._observation.state_rows(self.params, state)}

    def judge(self, state: GridState) -> tuple[Tensor, Tensor]:
        """Terminate with both diamonds collected; truncate at the horizon."""
        return won(state), state.step >= self.params.horizon

    def statistics(self, state: GridState) -> list[Tensor]:
        """Return success and the two diamonds, 0 or 1 each."""
        return [won(state).float(), *state.collected.float()]
