"""A lidar and its noise. Ranges are exact: every ray is cut with every obstacle near its sensor.

All obstacles are as wide at the bottom as at the top. So the rays of one azimuth, one for every ring, share
the test in the plane, which gives the horizontal distances between which they are over the footprint. Each
ring intersects them with the distances at which it is between bottom and top, and hits the nearer end.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from navrl.config.checks import require, require_number, require_whole
from navrl.envs.core import random
from navrl.envs.navigation.sim.static_obstacles import (
    Boxes,
    Cylinders,
    Grid,
    StaticObstacles,
    Worlds,
    in_sight,
)

_FAR_M = 1e9  # distance of a miss
_NOT_ZERO = 1.2345e-13  # added to direction components, all of them larger, before a division
_LEAST_RADIUS_M = 1e-3  # that of an absent cylinder is 0
_EAGER_CHUNK = 64  # scans at once, so that intermediate tensors stay in the cache


@dataclass(frozen=True, kw_only=True)
class Lidar:
    """Rays in all azimuths, beam 0 along the heading and then counter-clockwise, on cones of equal slope."""

    range_m: float
    beams: int  # azimuths
    rings: int  # elevations, from the lowest to the highest at equal steps
    ring_low_deg: float
    ring_high_deg: float

    def __post_init__(self) -> None:
        """Raise ConfigError for rays that cannot be cast."""
        require_number("env.sim.lidar.range_m", self.range_m, above=0.0)
        require_whole("env.sim.lidar.beams", self.beams, 1)
        require_whole("env.sim.lidar.rings", self.rings, 1)
        low, high = self.ring_low_deg, self.ring_high_deg
        require_number("env.sim.lidar.ring_high_deg", high, most=89.0)
        require_number("env.sim.lidar.ring_low_deg", low, least=-89.0, most=high)
        fits = self.rings > 1 or low == high
        expected = "2 or more, or ring_low_deg = ring_high_deg"
        require(fits, "env.sim.lidar.rings", self.rings, expected)

    @property
    def azimuths_rad(self) -> list[float]:
        """Return the azimuth of every beam, from the heading."""
        return [2.0 * math.pi * beam / self.beams for beam in range(self.beams)]

    @property
    def elevations_rad(self) -> list[float]:
        """Return the elevation of every ring, upwards."""
        step_deg = (self.ring_high_deg - self.ring_low_deg) / max(1, self.rings - 1)
        return [math.radians(self.ring_low_deg + ring * step_deg) for ring in range(self.rings)]


Vector = tuple[Tensor, ...]  # the components, (N,) each


class _Chord(NamedTuple):
    """The horizontal distances between which a ray is over a footprint; a miss leaves before it enters."""

    enter_m: Tensor  # (N, beams, K)
    leave_m: Tensor


def cast(
    lidar: Lidar,
    grid: Grid,
    worlds: Worlds,
    world: Tensor,
    x: Tensor,
    y: Tensor,
    z: Tensor,
    cos_heading: Tensor,
    sin_heading: Tensor,
) -> Tensor:
    """Return the range of every ray, float32 (N, beams, rings); range_m where it hits nothing.

    `world` is int64 (N,), the others are float32 (N,). The ground is z = 0. In an obstacle all ranges are 0.
    """
    in_reach = lidar.range_m <= grid.reach_m
    require(in_reach, "env.sim.lidar.range_m", lidar.range_m, "the grid's reach_m or less")
    near = in_sight(grid, worlds, world, x, y)
    return cast_at(lidar, near, (x, y, z), (cos_heading, sin_heading))


def cast_at(lidar: Lidar, near: StaticObstacles, position: Vector, heading: Vector) -> Tensor:
    """Return the ranges (N, beams, rings) at position x, y, z and heading x, y among obstacles in sight."""
    if torch.compiler.is_compiling() or not position[0].is_cpu:
        return _cast(lidar, near, position, heading)

    def ranges(first: int) -> Tensor:
        chunk = slice(first, first + _EAGER_CHUNK)
        return _cast(lidar, *tree_map(lambda field: field[chunk], (near, position, heading)))

    firsts = range(0, max(1, position[0].shape[0]), _EAGER_CHUNK)
    return torch.cat([ranges(first) for first in firsts])


def _cast(lidar: Lidar, near: StaticObstacles, position: Vector, heading: Vector) -> Tensor:
    """Return the ranges of one chunk."""
    x, y, z = (axis.unsqueeze(-1) for axis in position)
    direction = _directions(lidar, *heading)
    hits: list[list[Tensor]] = [[_ground(lidar, ring, z)] for ring in lidar.elevations_rad]
    boxes, cylinders = near
    if boxes.x.shape[1] > 0:
        chord = _box_chord(boxes, x, y, *direction)
        _hit(lidar, chord, boxes, z, hits)
    if cylinders.x.shape[1] > 0:
        chord = _cylinder_chord(cylinders, x, y, *direction)
        _hit(lidar, chord, cylinders, z, hits)
    ranges = []
    for elevation_rad, found in zip(lidar.elevations_rad, hits, strict=True):
        nearest_m = found[0]
        for other in found[1:]:
            nearest_m = torch.minimum(nearest_m, other)
        slant_m = nearest_m * (1.0 / math.cos(elevation_rad))
        ranges.append(slant_m.clamp(0.0, lidar.range_m).expand(-1, lidar.beams))
    return torch.stack(ranges, -1)


def _directions(lidar: Lidar, cos_heading: Tensor, sin_heading: Tensor) -> Vector:
    """Return the unit vectors of the beams in the plane, (N, beams, 1)."""
    cos = cos_heading.new_tensor([math.cos(azimuth) for azimuth in lidar.azimuths_rad])
    sin = cos_heading.new_tensor([math.sin(azimuth) for azimuth in lidar.azimuths_rad])
    cos_heading, sin_heading = cos_heading.unsqueeze(-1), sin_heading.unsqueeze(-1)
    along_x = cos_heading * cos - sin_heading * sin
    along_y = sin_heading * cos + cos_heading * sin
    return along_x.unsqueeze(-1), along_y.unsqueeze(-1)


def _box_chord(boxes: Boxes, x: Tensor, y: Tensor, along_x: Tensor, along_y: Tensor) -> _Chord:
    """Return the chords over boxes: inside both of the slabs between opposite sides."""
    east, north = boxes.x - x, boxes.y - y
    cos, sin = boxes.cos_yaw.unsqueeze(1), boxes.sin_yaw.unsqueeze(1)
    offset_x = (east * boxes.cos_yaw + north * boxes.sin_yaw).unsqueeze(1)
    offset_y = (north * boxes.cos_yaw - east * boxes.sin_yaw).unsqueeze(1)
    per_x = (along_x * cos + along_y * sin + _NOT_ZERO).reciprocal()
    per_y = (along_y * cos - along_x * sin + _NOT_ZERO).reciprocal()
    half_x, half_y = boxes.half_x_m.unsqueeze(1), boxes.half_y_m.unsqueeze(1)
    middle_x, middle_y = offset_x * per_x, offset_y * per_y
    through_x, through_y = per_x.abs(), per_y.abs()
    # The product, the way from the middle of a slab to its side, is written out for both ends, here and for
    # cylinders: were it one tensor, the compiler would store it and others as large, and take up to ten
    # times as long. A slow test looks for such tensors.
    enter = _larger(middle_x + -half_x * through_x, middle_y + -half_y * through_y)
    leave = _smaller(middle_x + half_x * through_x, middle_y + half_y * through_y)
    return _Chord(enter, leave)


def _cylinder_chord(
    cylinders: Cylinders, x: Tensor, y: Tensor, along_x: Tensor, along_y: Tensor
) -> _Chord:
    """Return the chords over cylinders: half a chord before and behind the nearest point."""
    east, north = (cylinders.x - x).unsqueeze(1), (cylinders.y - y).unsqueeze(1)
    radius = cylinders.radius_m.clamp_min(_LEAST_RADIUS_M).unsqueeze(1)
    middle = east * along_x + north * along_y
    offset = (north * along_x - east * along_y) / radius
    square = (1.0 - offset) * (1.0 + offset)
    half = square.relu().sqrt() - _FAR_M * (-square).relu()  # of the radius; below 0: a miss
    return _Chord(middle + -radius * half, middle + radius * half)


def _hit(
    lidar: Lidar, chord: _Chord, obstacles: Boxes | Cylinders, z: Tensor, hits: list[list[Tensor]]
) -> None:
    """Append every ring's distance to the nearest obstacle, (N, beams)."""
    for elevation_rad, found in zip(lidar.elevations_rad, hits, strict=True):
        first, last = _at_height(math.tan(elevation_rad), obstacles.bottom_m, obstacles.top_m, z)
        enter = _larger(chord.enter_m, first.unsqueeze(1))
        leave = _smaller(chord.leave_m, last.unsqueeze(1))
        # A miss leaves before it enters, and is far away. A select is thirty times slower in eager torch.
        found.append((enter + _FAR_M * (enter - leave).relu()).amin(-1))


def _at_height(slope: float, bottom_m: Tensor, top_m: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Return the horizontal distances between which a ring is between bottom and top, (N, K)."""
    if slope == 0.0:
        level = (bottom_m <= z) & (top_m >= z)
        return torch.zeros_like(top_m), torch.where(level, _FAR_M, -1.0)
    # Differences and factors of these signs never yield -0.0, which as bits is the smallest number.
    first, last = (bottom_m - z, top_m - z) if slope > 0.0 else (z - top_m, z - bottom_m)
    return first.relu() * (1.0 / abs(slope)), last * (1.0 / abs(slope))


def _ground(lidar: Lidar, elevation_rad: float, height_m: Tensor) -> Tensor:
    """Return the horizontal distance (N, 1) at which a ring meets the ground."""
    slope = math.tan(elevation_rad)
    if slope >= 0.0:
        return torch.full_like(height_m, lidar.range_m)
    return height_m * (-1.0 / slope)


def _larger(a: Tensor, b: Tensor) -> Tensor:
    """Return the larger of two distances; of two negative ones, either.

    The bits of positive float32 numbers have the order of the numbers, and those of negative ones are
    smaller. Two integers are compared in one instruction, floats, of which one may be NaN, in four; the
    least of a whole row of integers is slow.
    """
    return torch.maximum(_bits(a), _bits(b)).view(torch.float32)


def _smaller(a: Tensor, b: Tensor) -> Tensor:
    """Return the smaller of two distances; of two negative ones, either."""
    return torch.minimum(_bits(a), _bits(b)).view(torch.float32)


def _bits(distance_m: Tensor) -> Tensor:
    return distance_m.view(torch.int32)


_PARTS = 4  # uniform numbers whose sum is about normal: no logarithm, so the same bits in any batch
_COARSE = 1 << 12  # equally likely values of each
_MEAN = _PARTS * 0.5 * (1.0 - 1.0 / _COARSE)
_SIGMA = (_PARTS * (1.0 - 1.0 / _COARSE**2) / 12.0) ** 0.5


@dataclass(frozen=True, kw_only=True)
class LidarNoise:
    """The errors of a real lidar: of the distance, and rays that do not come back."""

    range_sigma_m: float  # standard deviation of the range of what is hit
    dropout: float  # probability that a ray does not come back, and reads as free

    def __post_init__(self) -> None:
        """Raise ConfigError for impossible errors."""
        require_number("env.sim.noise.range_sigma_m", self.range_sigma_m, least=0.0)
        require_number("env.sim.noise.dropout", self.dropout, least=0.0, most=1.0)


def add_noise(
    noise: LidarNoise, ranges: Tensor, key: Tensor, step: Tensor, range_m: float
) -> Tensor:
    """Return the ranges (M, N) as measured by the episodes with these keys (N,) in this step (N,).

    A free ray, of range_m, stays free; every other one has an error of its own.
    """
    if noise.range_sigma_m == 0.0 and noise.dropout == 0.0:
        return ranges
    *parts, lost = random.coarse(key, random.NOISE, step, ranges.shape[0], _PARTS + 1)
    error = (sum(parts[1:], parts[0]) - _MEAN) * (noise.range_sigma_m / _SIGMA)
    measured = (ranges + error).clamp(0.0, range_m)
    free = (ranges >= range_m) | (lost < noise.dropout)
    return measured.where(~free, range_m)
