"""The env of drones as base stations: agents are the group "agents", reward and flags are the team's."""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from navrl.config.checks import require, require_choice
from navrl.envs.core import specs
from navrl.envs.core.env import BatchedEnv, EnvOptions
from navrl.envs.core.reductions import sum_rows
from navrl.envs.core.rewards import SharedReward, Transition
from navrl.envs.core.shapes import Circle, Line, Polygon, Shape, Text
from navrl.envs.coverage.observations import CoverageObservation
from navrl.envs.coverage.rewards import difference
from navrl.envs.coverage.sim.advance import (
    CoverageState,
    advance,
    connected,
    initial_state,
    serving,
)
from navrl.envs.coverage.sim.anchors import anchors
from navrl.envs.coverage.sim.backhaul import Backhaul
from navrl.envs.coverage.sim.params import CoverageParams

_STATISTICS = ("score", "coverage", "quality", "connected", "height_m")
_RELAYED = ("connectivity", "throughput_mbps", "hops")
_NORMALISED = "score_norm"
_AXES = 3
_CORNERS = ((-1.0, -0.7), (1.0, -0.7), (0.0, 1.0))  # of a triangle
REWARD_SPLITS = ("team", "per_agent", "difference")


class CoverageEnv(BatchedEnv):
    """Drones as base stations; an action is a velocity for each, in parts of the highest speed per axis."""

    params: CoverageParams
    _observation: CoverageObservation
    share_names = ("coverage", "quality", "connectivity")
    _reward: SharedReward
    action = specs.Bounds(-1.0, 1.0, columns=_AXES)
    ends_together = True

    @property
    def column_names(self) -> dict[str, Sequence[str]]:
        """Return the columns of leaves where they are known, and of "action"."""
        unit = f"[{self.params.max_speed_mps:g} m/s]"
        return {**super().column_names, "action": [f"velocity {axis} {unit}" for axis in "xyz"]}

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
        self.has_own_rewards = reward_split != "team"
        super().__init__(sim=sim, observation=observation, reward=reward, **options)

    def initial(self, key: Tensor) -> CoverageState:
        """Return drones and users at random places."""
        return initial_state(self.params, key)

    def advance(self, state: CoverageState, action: Tensor) -> tuple[CoverageState, None]:
        """Fly the drones; there are no events."""
        return advance(self.params, state, action.transpose(0, 1)), None

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

    def draw(self, state: CoverageState) -> list[Shape]:
        """Return the ground from above: users in the colour of the drone that serves them, and all links."""
        params, drone = self.params, state.position[:2]
        side, number = params.side_m, list(range(params.num_drones))
        server = serving(params, state)
        served = server >= 0
        home = drone.gather(1, server.clamp_min(0).long().expand(2, -1, -1))
        return [
            Polygon(
                [(0.0, 0.0), (side, 0.0), (side, side), (0.0, side)], colour="quiet", filled=False
            ),
            Line([state.users.place, home], colour=server, visible=served),
            Circle(state.users.place, 0.006 * side, colour=server, label="user"),
            *self._draw_network(state),
            Circle(drone, 0.017 * side, colour=number, trail=True, label="drone"),
            Text((drone[0], drone[1] + 0.04 * side), [str(each + 1) for each in number]),
        ]

    def _draw_network(self, state: CoverageState) -> list[Shape]:
        """Return the ground stations, and the links of the drones that have a path to one."""
        backhaul, drone = self.params.backhaul, state.position[:2]
        if not isinstance(backhaul, Backhaul):
            return []
        stations = [(x, y) for x, y, _ in backhaul.stations]
        linked = backhaul.drone_links(self.params.radio, state.position) & (
            state.network.length > 0.0
        )
        pairs = torch.combinations(torch.arange(self.params.num_drones, device=drone.device)).t()
        half = 0.02 * self.params.side_m
        return [
            Line(
                [drone[:, pairs[0]], drone[:, pairs[1]]],
                colour="goal",
                visible=linked[pairs[0], pairs[1]],
            ),
            *(
                Line([drone, station], colour="goal", visible=state.network.direct[index])
                for index, station in enumerate(stations)
            ),
            Polygon(
                [[(x + dx * half, y + dy * half) for x, y in stations] for dx, dy in _CORNERS],
                colour="goal",
                label="ground station",
            ),
        ]


def _weights(reward: SharedReward) -> list[float]:
    """Return the weights as they were written; the tensor holds rounded ones."""
    return [round(weight, 6) for weight in reward.weights.tensor.tolist()]
