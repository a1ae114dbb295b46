"""A lidar among upright boxes and cylinders, exact: every ray is cut with every obstacle near its sensor.

All obstacles are as wide at the bottom as at the top. So the rays of one azimuth, one for every ring, share
the test in the plane: it says between which horizontal distances they are over the footprint. Each ring then
adds between which of them it is between bottom and top, and sees the nearer end of what is left.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.core import random
from navrl.envs.navigation.sim.static_obstacles import Boxes, Cylinders, Grid, Worlds, listed

_FAR_M = 1e9  # nothing is there
_NOT_ZERO = (
    1.2345e-13  # added to components of directions, none of which is as small, before a division
)
_LEAST_RADIUS_M = 1e-3  # that of a cylinder which is not there is 0
_EAGER_CHUNK = 64  # scans at once, so that what lies between two operations stays in the cache


@dataclass(frozen=True, kw_only=True)
class Lidar:
    """Rays in all azimuths, beam 0 along the heading and then counter-clockwise, on cones of equal slope."""

    range_m: float
    beams: int  # azimuths
    rings: int  # elevations, from the lowest to the highest at equal steps
    ring_low_deg: float
    ring_high_deg: float

    def __post_init__(self) -> None:
        """Refuse rays that cannot be cast."""
        _require("range_m", self.range_m, 0.0 < self.range_m < math.inf, "a number more than 0")
        _require("beams", self.beams, self.beams >= 1, "1 or more")
        _require("rings", self.rings, self.rings >= 1, "1 or more")
        low, high = self.ring_low_deg, self.ring_high_deg
        _require("ring_low_deg", low, -89.0 <= low <= high, "from -89 to ring_high_deg")
        _require("ring_high_deg", high, high <= 89.0, "89 or less")
        one = self.rings > 1 or low == high
        _require("rings", self.rings, one, "2 or more, or ring_low_deg = ring_high_deg")

    @property
    def azimuths_rad(self) -> list[float]:
        """Of every beam, from the heading."""
        return [2.0 * math.pi * beam / self.beams for beam in range(self.beams)]

    @property
    def elevations_rad(self) -> list[float]:
        """Of every ring, upwards."""
        step_deg = (self.ring_high_deg - self.ring_low_deg) / max(1, self.rings - 1)
        return [math.radians(self.ring_low_deg + ring * step_deg) for ring in range(self.rings)]


class _Chord(NamedTuple):
    """Between which horizontal distances a ray is over a footprint; nowhere if it leaves before it enters."""

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
    """Distance to what each ray hits first, float32 (N, beams, rings); range_m where there is nothing.

    `world` is int64 (N,), the others are float32 (N,). The ground is z = 0. In an obstacle all ranges are 0.
    """
    _require("range_m", lidar.range_m, lidar.range_m <= grid.reach_m, "the grid's reach_m or less")
    sensors = (world, x, y, z, cos_heading, sin_heading)
    if torch.compiler.is_compiling() or not x.is_cpu:
        return _cast(lidar, grid, worlds, *sensors)
    firsts = range(0, max(1, x.shape[0]), _EAGER_CHUNK)
    chunks = ((field[first : first + _EAGER_CHUNK] for field in sensors) for first in firsts)
    return torch.cat([_cast(lidar, grid, worlds, *chunk) for chunk in chunks])


def _cast(
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
    """One chunk of cast."""
    cell = world * grid.cells + grid.cell_index(x, y)
    height_m = z.unsqueeze(-1)
    direction = _directions(lidar, cos_heading, sin_heading)
    hits: list[list[Tensor]] = [[_ground(lidar, ring, height_m)] for ring in lidar.elevations_rad]
    if worlds.box_cells.shape[-1] > 0:
        boxes = Boxes(*listed(worlds.boxes, worlds.box_cells, world, cell))
        chord = _box_chord(boxes, x.unsqueeze(-1), y.unsqueeze(-1), *direction)
        _hit(lidar, chord, boxes.bottom_m - height_m, boxes.top_m - height_m, hits)
    if worlds.cylinder_cells.shape[-1] > 0:
        cylinders = Cylinders(*listed(worlds.cylinders, worlds.cylinder_cells, world, cell))
        chord = _cylinder_chord(cylinders, x.unsqueeze(-1), y.unsqueeze(-1), *direction)
        _hit(lidar, chord, cylinders.bottom_m - height_m, cylinders.top_m - height_m, hits)
    ranges = []
    for elevation_rad, found in zip(lidar.elevations_rad, hits, strict=True):
        nearest_m = found[0]
        for other in found[1:]:
            nearest_m = torch.minimum(nearest_m, other)
        slant_m = nearest_m * (1.0 / math.cos(elevation_rad))
        ranges.append(slant_m.clamp(0.0, lidar.range_m).expand(-1, lidar.beams))
    return torch.stack(ranges, -1)


def _directions(lidar: Lidar, cos_heading: Tensor, sin_heading: Tensor) -> tuple[Tensor, Tensor]:
    """Unit vectors of the beams in the plane, (N, beams, 1)."""
    cos = cos_heading.new_tensor([math.cos(azimuth) for azimuth in lidar.azimuths_rad])
    sin = cos_heading.new_tensor([math.sin(azimuth) for azimuth in lidar.azimuths_rad])
    cos_heading, sin_heading = cos_heading.unsqueeze(-1), sin_heading.unsqueeze(-1)
    along_x = cos_heading * cos - sin_heading * sin
    along_y = sin_heading * cos + cos_heading * sin
    return along_x.unsqueeze(-1), along_y.unsqueeze(-1)


def _box_chord(boxes: Boxes, x: Tensor, y: Tensor, along_x: Tensor, along_y: Tensor) -> _Chord:
    """Where the rays are over the boxes: in both of the slabs between opposite sides."""
    east, north = boxes.x - x, boxes.y - y
    cos, sin = boxes.cos_yaw.unsqueeze(1), boxes.sin_yaw.unsqueeze(1)
    offset_x = (east * boxes.cos_yaw + north * boxes.sin_yaw).unsqueeze(1)
    offset_y = (north * boxes.cos_yaw - east * boxes.sin_yaw).unsqueeze(1)
    per_x = 1.0 / (along_x * cos + along_y * sin + _NOT_ZERO)
    per_y = 1.0 / (along_y * cos - along_x * sin + _NOT_ZERO)
    half_x, half_y = boxes.half_x_m.unsqueeze(1), boxes.half_y_m.unsqueeze(1)
    middle_x, middle_y = offset_x * per_x, offset_y * per_y
    through_x, through_y = per_x.abs(), per_y.abs()
    # The product, the way from the middle of a slab to its side, is written out for both ends, here and for
    # cylinders: were it one tensor, the compiler would store it and others as large, and take up to ten
    # times as long. A slow test looks for such tensors.
    enter = torch.maximum(middle_x + -half_x * through_x, middle_y + -half_y * through_y)
    leave = torch.minimum(middle_x + half_x * through_x, middle_y + half_y * through_y)
    return _Chord(enter, leave)


def _cylinder_chord(
    cylinders: Cylinders, x: Tensor, y: Tensor, along_x: Tensor, along_y: Tensor
) -> _Chord:
    """Where the rays are over the cylinders: half a chord before and behind where they are nearest."""
    east, north = (cylinders.x - x).unsqueeze(1), (cylinders.y - y).unsqueeze(1)
    radius = cylinders.radius_m.clamp_min(_LEAST_RADIUS_M).unsqueeze(1)
    middle = east * along_x + north * along_y
    aside = (north * along_x - east * along_y) / radius
    square = (1.0 - aside) * (1.0 + aside)
    half = square.relu().sqrt() - _FAR_M * (-square).relu()  # of the radius; below 0: a miss
    return _Chord(middle + -radius * half, middle + radius * half)


def _hit(
    lidar: Lidar, chord: _Chord, bottom_m: Tensor, top_m: Tensor, hits: list[list[Tensor]]
) -> None:
    """Append for every ring how far the nearest obstacle is; bottom and top are relative to the sensor."""
    for elevation_rad, found in zip(lidar.elevations_rad, hits, strict=True):
        first, last = _at_height(math.tan(elevation_rad), bottom_m, top_m)
        enter = torch.maximum(chord.enter_m, first.unsqueeze(1))
        leave = torch.minimum(chord.leave_m, last.unsqueeze(1))
        # Who leaves before entering ends up far away. A select would be thirty times slower in eager torch.
        found.append((enter + _FAR_M * (enter - leave).relu()).amin(-1))


def _at_height(slope: float, bottom_m: Tensor, top_m: Tensor) -> tuple[Tensor, Tensor]:
    """Between which horizontal distances from the sensor a ring is between bottom and top, (N, K)."""
    if slope == 0.0:
        level = (bottom_m <= 0.0) & (top_m >= 0.0)
        return torch.zeros_like(top_m), torch.where(level, _FAR_M, -1.0)
    per_slope = 1.0 / slope
    first, last = (bottom_m, top_m) if slope > 0.0 else (top_m, bottom_m)
    return (first * per_slope).clamp_min(0.0), last * per_slope


def _ground(lidar: Lidar, elevation_rad: float, height_m: Tensor) -> Tensor:
    """Horizontal distance (N, 1) at which a ring meets the ground."""
    slope = math.tan(elevation_rad)
    if slope >= 0.0:
        return torch.full_like(height_m, lidar.range_m)
    return height_m * (-1.0 / slope)


def _require(name: str, value: object, usable: bool, expected: str) -> None:
    if not usable:
        raise ValueError(
            f"env.sim.lidar.{name} = {value}; expected {expected}; change env.sim.lidar.{name}"
        )


_PARTS = 4  # uniform numbers whose sum is about normal: no logarithm, so the same bits in any batch
_COARSE = 1 << 12  # equally likely values of each
_MEAN = _PARTS * 0.5 * (1.0 - 1.0 / _COARSE)
_SIGMA = (_PARTS * (1.0 - 1.0 / _COARSE**2) / 12.0) ** 0.5


@dataclass(frozen=True, kw_only=True)
class LidarNoise:
    """How large the errors are; 0 and 0: none."""

    range_sigma_m: float  # standard deviation of the range of what is hit
    dropout: float  # probability that a ray does not come back, and reads as free

    def __post_init__(self) -> None:
        """Refuse impossible errors."""
        if not 0.0 <= self.range_sigma_m < float("inf"):
            raise ValueError(
                f"env.sim.noise.range_sigma_m = {self.range_sigma_m}; expected 0 or more; "
                "change env.sim.noise.range_sigma_m"
            )
        if not 0.0 <= self.dropout <= 1.0:
            raise ValueError(
                f"env.sim.noise.dropout = {self.dropout}; expected 0 to 1; change env.sim.noise.dropout"
            )


def noisy(noise: LidarNoise, ranges: Tensor, key: Tensor, step: Tensor, range_m: float) -> Tensor:
    """The ranges (M, N) as measured by the episodes with these keys (N,) in this step (N,).

    A free ray, of range_m, stays free; every other one is off by a number of its own.
    """
    if noise.range_sigma_m == 0.0 and noise.dropout == 0.0:
        return ranges
    *parts, lost = random.coarse(key, random.NOISE, step, ranges.shape[0], _PARTS + 1)
    error = (sum(parts[1:], parts[0]) - _MEAN) * (noise.range_sigma_m / _SIGMA)
    measured = (ranges + error).clamp(0.0, range_m)
    free = (ranges >= range_m) | (lost < noise.dropout)
    return measured.where(~free, range_m)
