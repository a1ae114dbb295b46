"""Planner `potential_field`: the goal attracts, obstacles repel; it gets stuck where the two balance."""

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception, Planner, straight_to_goal
from navrl.envs.navigation.planners.collision_prediction import moving_level, static_points
from navrl.envs.navigation.sim.static_obstacles import FAR_M

_LEAST_M = 0.05  # closer does not repel more


class PotentialField(Planner):
    """Repulsion by gain (1 / d - 1 / reach) / d^2 from every beam's end and every moving obstacle."""

    def __init__(
        self,
        *,
        speed_mps: float,
        slowing_per_s: float,
        gain: float,
        reach_m: float,
        body_radius_m: float,
        level_m: float,
    ) -> None:
        self.speed_mps, self.slowing_per_s = speed_mps, slowing_per_s
        self.gain, self.reach_m = gain, reach_m
        self.body_radius_m, self.level_m = body_radius_m, level_m

    def act(
        self, perception: Perception, memory: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Command the sum of attraction and repulsion, limited to the speed."""
        wanted = straight_to_goal(perception, self.speed_mps, self.slowing_per_s)
        along_x, along_y, distance = static_points(self.lidar, perception, self.level_m)
        push = self._push(distance - self.body_radius_m)
        away_x, away_y = (along_x * push).sum(0), (along_y * push).sum(0)
        x, y, _ = perception.near_offset.unbind(0)
        distance = (x.square() + y.square()).sqrt().clamp_min(_LEAST_M)
        level = moving_level(perception, self.level_m, perception.velocity[2], 0.0)
        gap_m = distance - perception.near_radius_m - self.body_radius_m
        push = self._push(torch.where(level, gap_m, FAR_M)) / distance
        flown_x = wanted[0] - away_x - (x * push).sum(0)
        flown_y = wanted[1] - away_y - (y * push).sum(0)
        excess = (flown_x.square() + flown_y.square()).sqrt() / self.speed_mps
        scale = 1.0 / excess.clamp_min(1.0)
        return torch.stack([flown_x * scale, flown_y * scale, wanted[2]]), memory

    def _push(self, gap_m: Tensor) -> Tensor:
        """Return the repulsion, m/s, by something at this distance."""
        near = 1.0 / gap_m.clamp_min(_LEAST_M)
        return self.gain * (near - 1.0 / self.reach_m).clamp_min(0.0) * near.square()
