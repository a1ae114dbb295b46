"""Planner `velocity_obstacles`: the cheapest of a fan of velocities, by where each would lead."""

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception, Planner, straight_to_goal
from navrl.envs.navigation.planners.collision_prediction import CollisionPrediction, VelocityFan


class VelocityObstacles(Planner):
    """Minimises the detour from the wanted velocity, the danger, and the change of the command."""

    def __init__(
        self,
        *,
        speed_mps: float,
        slowing_per_s: float,
        prediction: CollisionPrediction,
        headings: int,
        speeds_mps: tuple[float, ...],
        danger_weight: float,
        danger_offset_s: float,
        change_weight: float,
    ) -> None:
        self.speed_mps, self.slowing_per_s = speed_mps, slowing_per_s
        self.prediction, self.fan = prediction, VelocityFan(headings, tuple(speeds_mps))
        self.danger_weight, self.danger_offset_s = danger_weight, danger_offset_s
        self.change_weight = change_weight

    def initial(self, count: int, device: torch.device | str) -> tuple[Tensor, ...]:
        """Return the last command (2, N): zero."""
        return (torch.zeros(2, count, device=device),)

    def act(
        self, perception: Perception, memory: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the command, and its horizontal part as memory."""
        last_x, last_y = memory[0].unbind(0)
        wanted = straight_to_goal(perception, self.speed_mps, self.slowing_per_s)
        choice = self.fan.around(wanted[0], wanted[1])
        hazards = self.prediction.hazards(self.lidar, perception, wanted[2])
        danger = self.prediction.danger_per_s(hazards, perception, choice.x, choice.y)
        detour = ((choice.x - wanted[0]).square() + (choice.y - wanted[1]).square()).sqrt()
        change = ((choice.x - last_x).square() + (choice.y - last_y).square()).sqrt()
        # weight / (seconds + offset), written with 1 / seconds, which is 0 where nothing is hit
        soon = self.danger_weight * danger / (1.0 + self.danger_offset_s * danger)
        x, y = choice.cheapest(detour + soon + self.change_weight * change)
        return torch.stack([x, y, wanted[2]]), (torch.stack([x, y]),)
