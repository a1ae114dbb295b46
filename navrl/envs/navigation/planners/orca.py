"""`orca`: the velocity nearest to the wanted one that avoids everything for a while, if others fly on."""

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception, Planner, straight_to_goal
from navrl.envs.navigation.planners.fan import check_fan, fan
from navrl.envs.navigation.planners.foresight import Foresight
from navrl.envs.navigation.planners.half_planes import HalfPlanes, avoiding, nearest_admissible
from navrl.envs.navigation.sim.lidar import Lidar


class Orca(Planner):
    """Half-planes of what it sees; where they leave nothing, the least dangerous velocity of a fan."""

    def __init__(
        self,
        *,
        speed_mps: float,
        slowing_per_s: float,
        foresight: Foresight,
        planes: int,
        escape_s: float,
        headings: int,
        speeds_mps: tuple[float, ...],
    ) -> None:
        self.speed_mps, self.slowing_per_s = speed_mps, slowing_per_s
        self.foresight = foresight
        self.planes, self.escape_s = planes, escape_s
        check_fan(headings, speeds_mps)
        self.headings, self.speeds_mps = headings, tuple(speeds_mps)

    def prepare(self, lidar: Lidar) -> None:
        """Learn where the beams point."""
        self.lidar = lidar

    def act(
        self, perception: Perception, memory: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The nearest admissible velocity, or the least dangerous."""
        wanted = straight_to_goal(perception, self.speed_mps, self.slowing_per_s)
        hazards = self.foresight.hazards(self.lidar, perception, wanted[2])
        horizon_s = self.foresight.horizons_s[-1]
        kept = self.foresight.kept_part(horizon_s)
        kept_x, kept_y = kept * perception.velocity[0], kept * perception.velocity[1]
        planes = avoiding(
            hazards,
            (1.0 - kept) * wanted[0] + kept_x,
            (1.0 - kept) * wanted[1] + kept_y,
            horizon_s=horizon_s,
            escape_s=self.escape_s,
        )
        # From the mean velocity until the horizon to the command that brings it about.
        edge = planes.edge_mps - planes.normal_x * kept_x - planes.normal_y * kept_y
        commands = HalfPlanes(planes.normal_x, planes.normal_y, edge * (1.0 / (1.0 - kept)))
        commands = commands.tightest(self.planes, wanted[0], wanted[1])
        found = nearest_admissible(commands, wanted[0], wanted[1], speed_mps=self.speed_mps)
        choice = fan(wanted[0], wanted[1], headings=self.headings, speeds_mps=self.speeds_mps)
        x, y = choice.least(self.foresight.danger_per_s(hazards, perception, choice.x, choice.y))
        command = [torch.where(found.exists, found.x, x), torch.where(found.exists, found.y, y)]
        return torch.stack([*command, wanted[2]]), memory
