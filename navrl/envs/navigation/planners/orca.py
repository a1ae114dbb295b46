"""Planner `orca`: the velocity nearest to the wanted one that collides with nothing within the horizon.

Van den Berg, Guy, Lin, Manocha: Reciprocal n-body collision avoidance, 2011; here the drone does all of
the avoiding. In the plane the nearest admissible velocity is one of few, so all are tried at once: exact,
without a branch or an iteration.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.navigation.planners.base import Perception, Planner, straight_to_goal
from navrl.envs.navigation.planners.collision_prediction import (
    CollisionPrediction,
    Hazards,
    VelocityFan,
)

_LEAST = 1e-6  # smallest divisor
_SLACK_MPS = 1e-3  # by which rounding may miss an edge
_OUT_OF_REACH = 1e9  # a cost


class Orca(Planner):
    """Half-planes of admissible velocities; where they leave nothing, the least dangerous of a fan."""

    def __init__(
        self,
        *,
        speed_mps: float,
        slowing_per_s: float,
        prediction: CollisionPrediction,
        planes: int,
        escape_s: float,
        headings: int,
        speeds_mps: tuple[float, ...],
    ) -> None:
        self.speed_mps, self.slowing_per_s = speed_mps, slowing_per_s
        self.planes, self.escape_s = planes, escape_s
        self.prediction, self.fan = prediction, VelocityFan(headings, tuple(speeds_mps))

    def act(
        self, perception: Perception, memory: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Command the nearest admissible velocity, or the least dangerous."""
        wanted = straight_to_goal(perception, self.speed_mps, self.slowing_per_s)
        hazards = self.prediction.hazards(self.lidar, perception, wanted[2])
        horizon_s = self.prediction.horizons_s[-1]
        kept = self.prediction.kept_part(horizon_s)
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
        choice = self.fan.around(wanted[0], wanted[1])
        danger = self.prediction.danger_per_s(hazards, perception, choice.x, choice.y)
        x, y = choice.cheapest(danger)
        command = [torch.where(found.exists, found.x, x), torch.where(found.exists, found.y, y)]
        return torch.stack([*command, wanted[2]]), memory


class HalfPlanes(NamedTuple):
    """K constraints normal . velocity >= edge_mps, fields (K, N); the normals are unit vectors."""

    normal_x: Tensor
    normal_y: Tensor
    edge_mps: Tensor

    def margin_mps(self, velocity_x: Tensor, velocity_y: Tensor) -> Tensor:
        """Return how far inside (K, N) the velocities (N,) are; negative outside."""
        return self.normal_x * velocity_x + self.normal_y * velocity_y - self.edge_mps

    def tightest(self, count: int, velocity_x: Tensor, velocity_y: Tensor) -> "HalfPlanes":
        """Return the `count` half-planes that these velocities (N,) violate most, or come closest to."""
        margin = self.margin_mps(velocity_x, velocity_y)
        chosen = margin.topk(min(count, margin.shape[0]), dim=0, largest=False).indices
        return HalfPlanes(*(field.gather(0, chosen) for field in self))


class Admissible(NamedTuple):
    """The velocity in all half-planes that is nearest to the wanted one, fields (N,)."""

    x: Tensor
    y: Tensor
    exists: Tensor  # bool; where there is none, x and y mean nothing


def avoiding(
    hazards: Hazards, velocity_x: Tensor, velocity_y: Tensor, *, horizon_s: float, escape_s: float
) -> HalfPlanes:
    """Return for every hazard the half-plane that leaves its velocity obstacle nearest to this velocity.

    The obstacle is the cone of the velocities that lead into the disc within horizon_s, cut off by the disc
    over the horizon. A drone inside the disc has to leave it within escape_s.
    """
    fast_x, fast_y = velocity_x - hazards.velocity_x, velocity_y - hazards.velocity_y
    x, y, radius = hazards.x, hazards.y, hazards.radius_m
    distance_2, radius_2 = x.square() + y.square(), radius.square()
    inside = distance_2 <= radius_2
    per_time = torch.where(inside, 1.0 / escape_s, 1.0 / horizon_s)
    # From the middle of the cut-off disc to the relative velocity.
    from_x, from_y = fast_x - x * per_time, fast_y - y * per_time
    towards = from_x * x + from_y * y
    length_2 = from_x.square() + from_y.square()
    blunt = inside | ((towards < 0.0) & (towards.square() > radius_2 * length_2))
    length = length_2.sqrt()
    per_length = 1.0 / length.clamp_min(_LEAST)
    left = x * from_y >= y * from_x
    leg = (distance_2 - radius_2).clamp_min(0.0).sqrt()
    offset = torch.where(left, radius, -radius)
    per_distance = 1.0 / distance_2.clamp_min(_LEAST)
    along_x, along_y = (x * leg - y * offset) * per_distance, (x * offset + y * leg) * per_distance
    # Of no length: straight away from the disc, or along x in its very middle.
    away_x = torch.where(length > _LEAST, from_x * per_length, -1.0)
    away_y = torch.where(length > _LEAST, from_y * per_length, 0.0)
    normal_x = torch.where(blunt, away_x, torch.where(left, -along_y, along_y))
    normal_y = torch.where(blunt, away_y, torch.where(left, along_x, -along_x))
    beside = fast_x * normal_x + fast_y * normal_y
    change = torch.where(blunt, radius * per_time - length, -beside)
    return HalfPlanes(normal_x, normal_y, normal_x * velocity_x + normal_y * velocity_y + change)


def nearest_admissible(
    planes: HalfPlanes, wanted_x: Tensor, wanted_y: Tensor, *, speed_mps: float
) -> Admissible:
    """Return the velocity nearest to the wanted one (N,) within all planes and the speed.

    It is the wanted one, or on one edge (its foot, or where that meets the circle of full speed), or where
    two edges meet, or on the circle. The nearest of these that violates nothing is the answer.
    """
    normal_x, normal_y, edge = planes
    margin = planes.margin_mps(wanted_x, wanted_y)
    count = edge.shape[0]
    first, second = torch.triu_indices(count, count, 1, device=edge.device).unbind(0)
    cross = normal_x[first] * normal_y[second] - normal_y[first] * normal_x[second]
    per_cross = 1.0 / torch.where(cross.abs() < _LEAST, _LEAST, cross)
    half_chord = (speed_mps**2 - edge.square()).clamp_min(0.0).sqrt()
    pace = speed_mps / (wanted_x.square() + wanted_y.square()).sqrt().clamp_min(_LEAST)
    found_x = torch.cat(
        [
            wanted_x.unsqueeze(0),
            wanted_x - margin * normal_x,
            (edge[first] * normal_y[second] - edge[second] * normal_y[first]) * per_cross,
            edge * normal_x - half_chord * normal_y,
            edge * normal_x + half_chord * normal_y,
            (wanted_x * pace).unsqueeze(0),
        ]
    )
    found_y = torch.cat(
        [
            wanted_y.unsqueeze(0),
            wanted_y - margin * normal_y,
            (normal_x[first] * edge[second] - normal_x[second] * edge[first]) * per_cross,
            edge * normal_y + half_chord * normal_x,
            edge * normal_y - half_chord * normal_x,
            (wanted_y * pace).unsqueeze(0),
        ]
    )
    violation = (found_x.square() + found_y.square()).sqrt() - speed_mps
    for plane_x, plane_y, plane_edge in zip(normal_x, normal_y, edge, strict=True):
        violation = torch.maximum(violation, plane_edge - plane_x * found_x - plane_y * found_y)
    cost = (found_x - wanted_x).square() + (found_y - wanted_y).square()
    cost = torch.where(violation <= _SLACK_MPS, cost, _OUT_OF_REACH)
    chosen = cost.argmin(0, keepdim=True)
    return Admissible(
        found_x.gather(0, chosen)[0],
        found_y.gather(0, chosen)[0],
        cost.gather(0, chosen)[0] < _OUT_OF_REACH,
    )
