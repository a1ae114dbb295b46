"""Prediction of collisions with static obstacles: in all directions, swept, and as this drone responds.

The nearest obstacles are known by their shapes, also where another one hides them or no beam passes. The way
of a drone under a command is the sum of what its velocity, its acceleration and the command contribute; only
limits of the acceleration and what an episode varies are not in it. It is looked at in a few places: what is
at least D away at two of them s apart, was sqrt(D^2 - s^2 / 4) or more away between them, whatever its shape.
"""

import functools
import operator
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.config.checks import require_number, require_whole
from navrl.envs.navigation.planners.base import Perception
from navrl.envs.navigation.sim import drone as drones
from navrl.envs.navigation.sim.clearance import gaps_m2
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.envs.navigation.sim.static_obstacles import (
    Boxes,
    Cylinders,
    Footprint,
    Grid,
    Worlds,
    footprint,
    in_sight,
)

_BEYOND = (1 << 31) - 1  # the largest int32: no obstacle


class Surroundings(NamedTuple):
    """The static obstacles around N drones."""

    grid: Grid
    worlds: Worlds
    world: Tensor  # int64 (N,)


class NearStatic(NamedTuple):
    """The M nearest static obstacles of a kind, fields (M, N); from above they have sides or a radius."""

    east_m: Tensor  # from the drone to the middle
    north_m: Tensor
    half_x_m: Tensor
    half_y_m: Tensor
    cos_yaw: Tensor
    sin_yaw: Tensor
    radius_m: Tensor
    bottom_m: Tensor  # above the drone
    top_m: Tensor
    gap_m: Tensor  # from the drone to the surface
    known_m: Tensor  # (N,): every obstacle of the kind that is nearer than this is among them


class Way(NamedTuple):
    """The places of a drone at some times, as sums of its velocity, acceleration and command."""

    times_s: tuple[float, ...]
    by_velocity_s: tuple[float, ...]
    by_acceleration_s2: tuple[float, ...]
    by_command_s: tuple[float, ...]


class StaticPrediction:
    """Predict if and when a commanded velocity leads into one of the nearest static obstacles."""

    def __init__(
        self, *, horizon_s: float, places: int, margin_m: float, boxes: int, cylinders: int
    ) -> None:
        require_number("shield.static.horizon_s", horizon_s, above=0.0)
        require_whole("shield.static.places", places, 1)
        require_number("shield.static.margin_m", margin_m, least=0.0)
        require_whole("shield.static.boxes", boxes, 1)
        require_whole("shield.static.cylinders", cylinders, 1)
        self._times_s = [horizon_s * number / places for number in range(1, places + 1)]
        self._margin_m, self._counts = margin_m, (boxes, cylinders)

    def prepare(self, params: NavigationParams) -> None:
        """Set the ways of this drone; called once, before the first episode."""
        self._body_m = params.body_radius_m
        model, decision_s = params.drone, params.decision_s
        held, faded = drones.response(model, self._times_s, decision_s)
        late, _ = drones.response(
            model, [max(0.0, t - decision_s) for t in self._times_s], decision_s
        )
        times_s = tuple(self._times_s)
        by_velocity_s = tuple(t - part for t, part in zip(times_s, held, strict=True))
        self.held = Way(times_s, by_velocity_s, tuple(faded), tuple(held))
        # A command that lasts for one decision, and then a stop: most of that way is flown in the beginning.
        brief = tuple(now - then for now, then in zip(held, late, strict=True))
        whole = self.held._replace(by_command_s=brief)
        few = sorted({0, min(1, len(times_s) - 1), len(times_s) - 1})
        self.stopped = Way(*(tuple(part[number] for number in few) for part in whole))

    def near(self, surroundings: Surroundings, position: Tensor) -> list[NearStatic]:
        """Return the nearest static obstacles of each kind, of drones at position (3, N)."""
        grid, worlds, world = surroundings
        x, y, _ = position.unbind(0)
        boxes, cylinders = in_sight(grid, worlds, world, x, y)
        found_m2 = gaps_m2(boxes, cylinders, *position.unbind(0))
        kinds: tuple[Boxes | Cylinders, ...] = (boxes, cylinders)
        found = zip(kinds, found_m2, self._counts, strict=True)
        return [
            _nearest(kind, kind_m2, position, min(count, kind_m2.shape[-1]), grid.reach_m)
            for kind, kind_m2, count in found
            if kind_m2.shape[-1] > 0
        ]

    def danger_per_s(
        self, near: list[NearStatic], perception: Perception, way: Way, command: tuple[Tensor, ...]
    ) -> Tensor:
        """Return 1 / (seconds to a collision) under commands x, y, z (C or 1, N), 0 for none, (C, N)."""
        like = perception.velocity
        # Filled on the device, (T, 1): a tensor of the host's numbers would be copied to a GPU at every step.
        times, *parts = (
            torch.stack([like[0].new_full((), v) for v in part]).unsqueeze(-1) for part in way
        )
        soon = 1.0 / times  # (T, 1)
        own = zip(perception.velocity, perception.acceleration, command, strict=True)
        place = [
            parts[0] * velocity + parts[1] * acceleration + parts[2] * commanded.unsqueeze(1)
            for velocity, acceleration, commanded in own
        ]  # x, y, z (C, T, N) from where the drone is
        chord_m2 = functools.reduce(operator.add, map(_steps_m2, place)).amax(1)  # (C, N)
        gone_m2 = functools.reduce(operator.add, (axis.square() for axis in place))
        needed_m = self._body_m + self._margin_m
        farthest_m = (needed_m**2 + 0.25 * chord_m2).sqrt()
        worst = torch.zeros_like(chord_m2)
        for kind in near:
            # Farther than the last one listed, there may be others.
            beyond = gone_m2 > (kind.known_m - farthest_m).clamp_min(0.0).square().unsqueeze(1)
            beyond_ps = torch.where(beyond, soon, 0.0).amax(1)
            # What is nearer already than the margin, has to stay as far as half of what is left.
            left_m = 0.5 * (kind.gap_m + self._body_m)
            kept_m2 = torch.minimum(left_m, kind.gap_m.clamp_max(needed_m)).square()
            kept_m = (kept_m2 + 0.25 * chord_m2.unsqueeze(1)).sqrt()  # (C, M, N)
            hit = _nearer(kind, place, kept_m.unsqueeze(1))
            hit_ps = torch.where(hit, soon.unsqueeze(-1), 0.0).amax((1, 2))
            worst = torch.maximum(worst, torch.maximum(hit_ps, beyond_ps))
        return worst


def _steps_m2(axis: Tensor) -> Tensor:
    """Return the squared differences of places (C, T, N), the first from 0."""
    return (axis - torch.cat([torch.zeros_like(axis[:, :1]), axis[:, :-1]], 1)).square()


def _nearer(near: NearStatic, place: list[Tensor], kept_m: Tensor) -> Tensor:
    """Return where places (C, T, N) are nearer than kept_m (C, 1, M, N) to an obstacle, (C, T, M, N).

    At the edges of top and bottom, what is kept is not rounded.
    """
    x, y, z = (axis.unsqueeze(2) for axis in place)
    middle_along = near.east_m * near.cos_yaw + near.north_m * near.sin_yaw
    middle_across = near.north_m * near.cos_yaw - near.east_m * near.sin_yaw
    along = x * near.cos_yaw + (y * near.sin_yaw - middle_along)
    across = y * near.cos_yaw - (x * near.sin_yaw + middle_across)
    beside_m2 = (along.abs() - near.half_x_m).clamp_min(0.0).square()
    beside_m2 = beside_m2 + (across.abs() - near.half_y_m).clamp_min(0.0).square()
    above_m = torch.maximum(near.bottom_m - z, z - near.top_m)
    return (beside_m2 < (kept_m + near.radius_m).square()) & (above_m < kept_m)


def _nearest(
    obstacles: Boxes | Cylinders, found_m2: Tensor, position: Tensor, count: int, reach_m: float
) -> NearStatic:
    """Return the nearest of obstacles (N, K), whose squared distances are found_m2."""
    slots = found_m2.shape[-1]
    # The bits of positive numbers have their order; with the slot in the last ones a minimum finds both.
    tag_bits = max(1, (slots - 1).bit_length())
    slot = torch.arange(slots, device=found_m2.device, dtype=torch.int32)
    order = (found_m2.view(torch.int32) >> tag_bits << tag_bits) | slot
    chosen = []
    for _ in range(count):
        chosen.append(order.amin(-1))
        order = torch.where(order > chosen[-1].unsqueeze(-1), order, _BEYOND)
    rows = torch.stack(chosen)  # (M, N)
    gap_m = (rows >> tag_bits << tag_bits).view(torch.float32).sqrt()
    slot = (rows & ((1 << tag_bits) - 1)).to(torch.int64).t()
    *shape, bottom_m, top_m = (
        field.gather(-1, slot).t().contiguous()
        for field in (*footprint(obstacles), obstacles.bottom_m, obstacles.top_m)
    )
    x, y, z = position.unbind(0)
    seen = Footprint(shape[0] - x, shape[1] - y, *shape[2:])
    # With fewer than that all are listed, as far as the cells list them.
    known_m = gap_m[-1].clamp_max(reach_m)
    return NearStatic(*seen, bottom_m - z, top_m - z, gap_m, known_m)
