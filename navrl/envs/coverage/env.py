"""Drones as base stations: the drones are the group "agents", reward and flags are the team's."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torchrl.data import Bounded

from navrl.envs.core import specs
from navrl.envs.core.env import BatchedEnv
from navrl.envs.core.reductions import added
from navrl.envs.core.rewards import SharedReward, Transition
from navrl.envs.coverage.observations import CoverageObservation, Histogram, Raw, Relative
from navrl.envs.coverage.sim.advance import (
    CoverageState,
    advance,
    connected,
    opening_state,
    without_each,
)
from navrl.envs.coverage.sim.anchors import anchors
from navrl.envs.coverage.sim.backhaul import Backhaul
from navrl.envs.coverage.sim.params import CoverageParams

_STATISTICS = ("score", "coverage", "quality", "connected", "height_m")
_RELAYED = ("connectivity", "throughput_mbps", "hops")
_NORMALISED = "score_norm"
_AXES = 3
_KINDS = {"histogram": Histogram, "relative": Relative, "raw": Raw}
REWARD_SPLITS = ("team", "per_agent", "difference")


class CoverageEnv(BatchedEnv):
    """The action is a velocity for each drone, in parts of its highest speed along x, y and z."""

    def __init__(
        self,
        *,
        name: str,
        headline: Mapping[str, str],
        objective: str,
        sim: CoverageParams,
        observation: CoverageObservation,
        reward: SharedReward,
        reward_split: str,
        compile_mode: str | bool,
        num_envs: int,
        device: torch.device | str,
        seed: int,
        first_env_id: int = 0,
    ) -> None:
        self.name, self.headline, self.objective = name, dict(headline), objective
        self._params, self._observation, self._reward = sim.checked(), observation, reward
        self._anchors = anchors(sim, dict(zip(reward.names, _weights(reward), strict=True)))
        self._relayed = isinstance(sim.backhaul, Backhaul)
        self._split = _checked(reward_split, sim)
        statistics = (*_STATISTICS, *(_RELAYED if self._relayed else ()))
        statistics = (*statistics, *((_NORMALISED,) if self._anchors else ()))
        specs.check_objective(objective, statistics)
        specs.check_observation(observation, _KINDS, name)
        observation.prepare(sim, device)
        reward.prepare(sim, device)
        shape = (num_envs, sim.num_drones, _AXES)
        super().__init__(
            num_envs=num_envs,
            device=device,
            seed=seed,
            first_env_id=first_env_id,
            compile_mode=compile_mode,
            observation_spec=specs.observation_spec(
                observation.leaves,
                num_envs=num_envs,
                num_agents=sim.num_drones,
                state_size=observation.state_size,
                device=device,
            ),
            action_spec=specs.action_spec(Bounded(-1.0, 1.0, shape=shape, device=device)),
            reward_parts=reward.names,
            statistic_names=statistics,
            rate_names=(),
            rewarded_agents=sim.num_drones if reward_split != "team" else 0,
        )

    def initial(self, key: Tensor) -> CoverageState:
        """Everybody anywhere."""
        return opening_state(self._params, key)

    def advance(
        self, state: CoverageState, action: Tensor, given: None
    ) -> tuple[CoverageState, None]:
        """The drones fly; nothing else happens."""
        return advance(self._params, state, action.permute(2, 1, 0)), None

    def observe(self, state: CoverageState) -> dict[str, Tensor]:
        """The leaves of the observation kind, and the state for a critic."""
        rows = self._observation.rows(self._params, state)
        leaves = {f"agents/observation/{leaf}": row for leaf, row in rows.items()}
        return leaves | {"state": self._observation.state_rows(self._params, state)}

    def judge(self, state: CoverageState) -> tuple[Tensor, Tensor]:
        """Never over, only cut when the time is up."""
        late = state.step >= self._params.horizon
        return torch.zeros_like(late), late

    def score(
        self,
        before: CoverageState,
        after: CoverageState,
        events: None,
        terminated: Tensor,
        truncated: Tensor,
    ) -> tuple[Tensor, list[Tensor]]:
        """The configured reward terms, of the whole team."""
        return self._reward(Transition(self._params, before, after, events, terminated, truncated))

    def own_rewards(
        self,
        before: CoverageState,
        after: CoverageState,
        events: None,
        terminated: Tensor,
        truncated: Tensor,
    ) -> Tensor | None:
        """What every drone is paid beside the team's reward, by reward_split."""
        if self._split == "team":
            return None
        transition = Transition(self._params, before, after, events, terminated, truncated)
        if self._split == "per_agent":
            return self._reward.shares(transition)
        return self._brought(transition)

    def _brought(self, transition: Transition) -> Tensor:
        """What the team would lose without each drone, (n, N): mates that it disturbs or replaces count."""
        reward, _ = self._reward(transition)
        rest = without_each(self._params, transition.after)
        never = torch.zeros_like(rest.step, dtype=torch.bool)
        without, _ = self._reward(Transition(self._params, rest, rest, None, never, never))
        return reward - without.view(-1, reward.shape[0])

    def statistics(self, state: CoverageState) -> list[Tensor]:
        """How well the team serves in this instant, and what that is worth."""
        terminated, truncated = self.judge(state)
        now = Transition(self._params, state, state, None, terminated, truncated)
        score, _ = self._reward(now)
        users = connected(state)
        rows = [
            score,
            users * (1.0 / self._params.num_users),
            added(state.service.quality) / users.clamp_min(1.0),
            users,
            added(state.position[2]) * (1.0 / self._params.num_drones),
        ]
        if self._relayed:
            routed = (state.network.length > 0.0).float()
            paths = added(routed)
            rows += [
                paths * (1.0 / self._params.num_drones),
                added(state.network.arriving_mbps),
                added(state.network.length) / paths.clamp_min(1.0),
            ]
        if self._anchors:
            worst, best = self._anchors
            rows.append((score - worst) * (1.0 / (best - worst)))
        return rows

    @property
    def params(self) -> CoverageParams:
        """The constants."""
        return self._params

    @property
    def coverage_state(self) -> CoverageState:
        """The simulator's state, for tests."""
        state: CoverageState = self._world.state
        return state


def _checked(reward_split: str, sim: CoverageParams) -> str:
    """The same, if there is such a split and it suits the team."""
    splits = REWARD_SPLITS if sim.num_drones > 1 else REWARD_SPLITS[:2]  # somebody has to be left
    if reward_split not in splits:
        raise ValueError(
            f"env.reward_split = {reward_split!r} with {sim.num_drones} drones; expected one of "
            f"{', '.join(splits)}; change env.reward_split"
        )
    return reward_split


def _weights(reward: SharedReward) -> list[float]:
    """As they were written: the tensor has rounded them."""
    return [round(weight, 6) for weight in reward.weights.tensor.tolist()]
