"""`velocity_obstacles`: of a fan of velocities the one that costs least; it looks where each would lead."""

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception, Planner, straight_to_goal
from navrl.envs.navigation.planners.collision_prediction import Foresight, check_fan, fan
from navrl.envs.navigation.sim.lidar import Lidar


class VelocityObstacles(Planner):
    """The cost: how far from the wanted velocity, how soon a collision, how far from the last command."""

    def __init__(
        self,
        *,
        speed_mps: float,
        slowing_per_s: float,
        foresight: Foresight,
        headings: int,
        speeds_mps: tuple[float, ...],
        danger_weight: float,
        danger_offset_s: float,
        change_weight: float,
    ) -> None:
        self.speed_mps, self.slowing_per_s = speed_mps, slowing_per_s
        self.foresight = foresight
        check_fan(headings, speeds_mps)
        self.headings, self.speeds_mps = headings, tuple(speeds_mps)
        self.danger_weight, self.danger_offset_s = danger_weight, danger_offset_s
        self.change_weight = change_weight

    def prepare(self, lidar: Lidar) -> None:
        """Learn where the beams point."""
        self.lidar = lidar

    def initial(self, count: int, device: torch.device | str) -> tuple[Tensor, ...]:
        """The last command (2, N): to stay."""
        return (torch.zeros(2, count, device=device),)

    def act(
        self, perception: Perception, memory: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The command, and the horizontal part of it to remember."""
        last_x, last_y = memory[0].unbind(0)
        wanted = straight_to_goal(perception, self.speed_mps, self.slowing_per_s)
        choice = fan(wanted[0], wanted[1], headings=self.headings, speeds_mps=self.speeds_mps)
        hazards = self.foresight.hazards(self.lidar, perception, wanted[2])
        danger = self.foresight.danger_per_s(hazards, perception, choice.x, choice.y)
        detour = ((choice.x - wanted[0]).square() + (choice.y - wanted[1]).square()).sqrt()
        change = ((choice.x - last_x).square() + (choice.y - last_y).square()).sqrt()
        # weight / (seconds + offset), written with 1 / seconds, which is 0 where nothing is hit
        soon = self.danger_weight * danger / (1.0 + self.danger_offset_s * danger)
        x, y = choice.least(detour + soon + self.change_weight * change)
        return torch.stack([x, y, wanted[2]]), (torch.stack([x, y]),)
