"""The env of drones as base stations: agents are the group "agents", reward and flags are the team's."""

from typing import Unpack

import torch
from torch import Tensor
from torchrl.data import Bounded, Composite, TensorSpec

from navrl.config.checks import require, require_choice
from navrl.envs.core import specs
from navrl.envs.core.env import BatchedEnv, EnvOptions
from navrl.envs.core.reductions import sum_rows
from navrl.envs.core.rewards import SharedReward, Transition
from navrl.envs.coverage.observations import CoverageObservation
from navrl.envs.coverage.rewards import difference
from navrl.envs.coverage.sim.advance import (
    CoverageState,
    advance,
    connected,
    initial_state,
)
from navrl.envs.coverage.sim.anchors import anchors
from navrl.envs.coverage.sim.backhaul import Backhaul
from navrl.envs.coverage.sim.params import CoverageParams

_STATISTICS = ("score", "coverage", "quality", "connected", "height_m")
_RELAYED = ("connectivity", "throughput_mbps", "hops")
_NORMALISED = "score_norm"
_AXES = 3
REWARD_SPLITS = ("team", "per_agent", "difference")


class CoverageEnv(BatchedEnv):
    """Drones as base stations; an action is a velocity for each, in parts of the highest speed per axis."""

    _reward: SharedReward

    def __init__(
        self,
        *,
        sim: CoverageParams,
        observation: CoverageObservation,
        reward: SharedReward,
        reward_split: str,
        **options: Unpack[EnvOptions],
    ) -> None:
        self._anchors = anchors(sim, dict(zip(reward.names, _weights(reward), strict=True)))
        self._relayed = isinstance(sim.backhaul, Backhaul)
        self._split = reward_split
        require_choice("env.reward_split", reward_split, REWARD_SPLITS)
        fits = sim.num_drones > 1 or reward_split != "difference"  # another drone has to be left
        expected = "one of team, per_agent, with a single drone"
        require(fits, "env.reward_split", reward_split, expected)
        relayed, normalised = _RELAYED * self._relayed, (_NORMALISED,) * bool(self._anchors)
        self.statistic_names = (*_STATISTICS, *relayed, *normalised)
        super().__init__(
            params=sim.checked(),
            observation=observation,
            reward=reward,
            rewarded_agents=0 if reward_split == "team" else sim.num_drones,
            **options,
        )

    def make_specs(self) -> tuple[Composite, TensorSpec]:
        """Return the specs of what the drones observe, and of their velocities."""
        shape = (*self.batch_size, self.params.num_drones, _AXES)
        velocity = Bounded(-1.0, 1.0, shape=shape, device=self.device)
        return specs.team_specs(self._observation.leaves, self._observation.state_size, velocity)

    def initial(self, key: Tensor) -> CoverageState:
        """Return drones and users at random places."""
        return initial_state(self.params, key)

    def advance(
        self, state: CoverageState, action: Tensor, given: None
    ) -> tuple[CoverageState, None]:
        """Fly the drones; there are no events."""
        return advance(self.params, state, action.permute(2, 1, 0)), None

    def observe(self, state: CoverageState) -> dict[str, Tensor]:
        """Return the observation of every drone, and the state for a centralised critic."""
        rows = self._observation.rows(self.params, state)
        leaves = {f"agents/observation/{leaf}": row for leaf, row in rows.items()}
        return leaves | {"state": self._observation.state_rows(self.params, state)}

    def judge(self, state: CoverageState) -> tuple[Tensor, Tensor]:
        """Truncate at the horizon; nothing terminates an episode."""
        late = state.step >= self.params.horizon
        return torch.zeros_like(late), late

    def own_rewards(self, transition: Transition) -> Tensor | None:
        """Return the reward of every drone beside the team's, by reward_split."""
        if self._split == "team":
            return None
        if self._split == "per_agent":
            return self._reward.shares(transition)
        return difference(self._reward, transition)

    def statistics(self, state: CoverageState) -> list[Tensor]:
        """Return the reward and the quality of service in this state."""
        terminated, truncated = self.judge(state)
        now = Transition(self.params, state, state, None, terminated, truncated)
        score, _ = self._reward(now)
        users = connected(state)
        rows = [
            score,
            users * (1.0 / self.params.num_users),
            sum_rows(state.service.quality) / users.clamp_min(1.0),
            users,
            sum_rows(state.position[2]) * (1.0 / self.params.num_drones),
        ]
        if self._relayed:
            routed = (state.network.length > 0.0).float()
            paths = sum_rows(routed)
            rows += [
                paths * (1.0 / self.params.num_drones),
                sum_rows(state.network.arriving_mbps),
                sum_rows(state.network.length) / paths.clamp_min(1.0),
            ]
        if self._anchors:
            worst, best = self._anchors
            rows.append((score - worst) * (1.0 / (best - worst)))
        return rows


def _weights(reward: SharedReward) -> list[float]:
    """Return the weights as they were written; the tensor holds rounded ones."""
    return [round(weight, 6) for weight in reward.weights.tensor.tolist()]
