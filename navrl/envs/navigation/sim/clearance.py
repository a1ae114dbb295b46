"""Exact distances: from a point or a straight flight to static obstacles, and between two footprints."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.navigation.sim.static_obstacles import (
    Boxes,
    Cylinders,
    Footprint,
    Grid,
    StaticObstacles,
    Worlds,
    in_sight,
)

_CHUNK = 1 << 21  # pairs per temporary tensor
_HALVINGS = 5  # of a flight, before its nearest point is interpolated
_LEAST_M, _LEAST_M2 = 1e-6, 1e-12  # smallest divisors


def clearance_m(boxes: Boxes, cylinders: Cylinders, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Return the distance (G, P) from points (G, P) to the nearest obstacle of their world, 0 inside.

    In three dimensions: a point above a low pillar, or below a floating box, is as far as it is high.
    """
    count = boxes.x.shape[1] + cylinders.x.shape[1]
    at_once = max(1, _CHUNK // max(1, x.shape[0] * count))
    parts = zip(*(torch.split(axis, at_once, dim=1) for axis in (x, y, z)), strict=True)
    return torch.cat([_clearance_m(boxes, cylinders, *part) for part in parts], dim=1)


def clearance_in_sight_m(
    grid: Grid, worlds: Worlds, world: Tensor, position: Tensor, way: Tensor
) -> Tensor:
    """Return the least clearance (N,) on straight flights by `way` (3, N) that end at position (3, N).

    In worlds int64 (N,). It is limited to the grid's reach_m, and knows what is within that of the end.
    """
    near = in_sight(grid, worlds, world, position[0], position[1])
    return clearance_on_way_m(near, position, way).clamp_max(grid.reach_m)


def clearance_on_way_m(near: StaticObstacles, position: Tensor, way: Tensor) -> Tensor:
    """Return the least clearance (N,) from in_sight obstacles; infinite where there is none."""
    boxes, cylinders = near
    place, flown = position.unsqueeze(-1), way.unsqueeze(-1)

    def from_boxes(back: Tensor | float) -> _Approach:
        along, across, above = _outside_box(boxes, *(place - back * flown).unbind(0))
        along_way, across_way = _turned(boxes, flown[0], flown[1])
        gap_m2 = along.square() + across.square() + above.square()
        return _Approach(gap_m2, along * along_way + across * across_way + above * flown[2])

    def from_cylinders(back: Tensor | float) -> _Approach:
        x, y, z = (place - back * flown).unbind(0)
        beside, above = _outside_cylinder(cylinders, x, y, z)
        outwards = (x - cylinders.x) * flown[0] + (y - cylinders.y) * flown[1]
        outwards = outwards / (beside + cylinders.radius_m).clamp_min(_LEAST_M)
        return _Approach(beside.square() + above.square(), beside * outwards + above * flown[2])

    found_m2 = [_least_on_way_m2(approach) for approach in (from_boxes, from_cylinders)]
    return _nearest_m(position[0], found_m2)


class _Approach(NamedTuple):
    """The distances of obstacles from a point of a flight."""

    gap_m2: Tensor  # squared
    slope_m2: Tensor  # half of the decrease of that, per flight further back


def _least_on_way_m2(approach: Callable[[Tensor | float], _Approach]) -> Tensor:
    """Return the least squared distance on a flight; approach(0.0) is its end, approach(1.0) its start.

    The distance to a convex shape is convex. A few halvings enclose where it is least, and its slope there
    is next to straight. Only distances at points of the flight are compared: the result may be too long by
    a hair, never too short, and never longer than at the end.
    """
    end = approach(0.0)
    later, earlier = end.slope_m2, approach(1.0).slope_m2  # at the ends of the enclosed part
    part, width = torch.zeros_like(later), 1.0
    for _ in range(_HALVINGS):
        width *= 0.5
        slope = approach(part + width).slope_m2
        nearer_before = slope > 0.0
        part = torch.where(nearer_before, part + width, part)
        later = torch.where(nearer_before, slope, later)
        earlier = torch.where(nearer_before, earlier, slope)
    inside = (later / (later - earlier).clamp_min(_LEAST_M2)).clamp(0.0, 1.0)
    return torch.minimum(end.gap_m2, approach(part + width * inside).gap_m2)


def _clearance_m(boxes: Boxes, cylinders: Cylinders, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    box = Boxes(*(field.unsqueeze(1) for field in boxes))
    cylinder = Cylinders(*(field.unsqueeze(1) for field in cylinders))
    return _least_m(box, cylinder, x, y, z)


def _least_m(box: Boxes, cylinder: Cylinders, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Return the distance from points (...) to the nearest of their obstacles (..., K)."""
    return _nearest_m(x, gaps_m2(box, cylinder, x, y, z))


def gaps_m2(box: Boxes, cylinder: Cylinders, x: Tensor, y: Tensor, z: Tensor) -> list[Tensor]:
    """Return the squared distances from points (...) to their boxes (..., B) and cylinders (..., C)."""
    point = (x.unsqueeze(-1), y.unsqueeze(-1), z.unsqueeze(-1))
    along, across, above = _outside_box(box, *point)
    to_box_m2 = along.square() + across.square() + above.square()
    beside, above = _outside_cylinder(cylinder, *point)
    return [to_box_m2, beside.square() + above.square()]


def _nearest_m(like: Tensor, found_m2: list[Tensor]) -> Tensor:
    """Return the least of the squared distances (..., K) of several kinds, as a distance (...)."""
    nearest_m2 = torch.full_like(like, torch.inf)  # a world may have no obstacle
    for kind_m2 in found_m2:
        if kind_m2.shape[-1] > 0:
            nearest_m2 = torch.minimum(nearest_m2, kind_m2.amin(-1))
    return nearest_m2.sqrt()


def _outside_box(box: Boxes, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return how far points are beyond the sides, along the axes of the box, with signs; 0 between them."""
    along, across = _turned(box, x - box.x, y - box.y)
    return _beyond(along, box.half_x_m), _beyond(across, box.half_y_m), _above(z, box)


def _outside_cylinder(
    cylinder: Cylinders, x: Tensor, y: Tensor, z: Tensor
) -> tuple[Tensor, Tensor]:
    """Return how far points are beside the cylinder, and how far above it, or below it as a negative."""
    to_axis_m = torch.sqrt((x - cylinder.x).square() + (y - cylinder.y).square())
    return (to_axis_m - cylinder.radius_m).clamp_min(0.0), _above(z, cylinder)


def _turned(shape: Boxes, east: Tensor, north: Tensor) -> tuple[Tensor, Tensor]:
    """Return the components along the axes of the box."""
    along = east * shape.cos_yaw + north * shape.sin_yaw
    return along, north * shape.cos_yaw - east * shape.sin_yaw


def _above(z: Tensor, shape: Boxes | Cylinders) -> Tensor:
    """Return the height above the top, or below the bottom as a negative; 0 between them."""
    return z - torch.minimum(torch.maximum(z, shape.bottom_m), shape.top_m)


def _beyond(offset: Tensor, half: Tensor) -> Tensor:
    """Return how far an offset is beyond either side, with its sign; 0 between them."""
    return offset - torch.minimum(torch.maximum(offset, -half), half)


def _beyond_m2(offset: Tensor, half: Tensor) -> Tensor:
    return (offset.abs() - half).clamp_min(0.0).square()


def rectangle_gap_m2(a: Footprint, b: Footprint) -> Tensor:
    """Return the squared distance between rectangles, corners not rounded; 0 where they overlap.

    Two convex shapes that are apart are nearest at a corner of one of them.
    """
    corners_a_m2, apart_a = _corners_m2(a, b)
    corners_b_m2, apart_b = _corners_m2(b, a)
    gap_m2 = torch.minimum(corners_a_m2, corners_b_m2)
    return torch.where(apart_a | apart_b, gap_m2, 0.0)


def _corners_m2(a: Footprint, b: Footprint) -> tuple[Tensor, Tensor]:
    """Return the squared distance from b to a's nearest corner, and whether an axis of b separates them."""
    east, north = a.x - b.x, a.y - b.y
    along = east * b.cos_yaw + north * b.sin_yaw
    across = north * b.cos_yaw - east * b.sin_yaw
    cos = a.cos_yaw * b.cos_yaw + a.sin_yaw * b.sin_yaw
    sin = a.sin_yaw * b.cos_yaw - a.cos_yaw * b.sin_yaw
    # One half diagonal of a, and the other; their opposites are the remaining corners.
    first_along, first_across = _rotated(a.half_x_m, a.half_y_m, cos, sin)
    second_along, second_across = _rotated(a.half_x_m, -a.half_y_m, cos, sin)
    corners = [
        _beyond_m2(along + sign * corner_along, b.half_x_m)
        + _beyond_m2(across + sign * corner_across, b.half_y_m)
        for sign in (1.0, -1.0)
        for corner_along, corner_across in (
            (first_along, first_across),
            (second_along, second_across),
        )
    ]
    nearest_m2 = torch.minimum(
        torch.minimum(corners[0], corners[1]), torch.minimum(corners[2], corners[3])
    )
    reach_along = torch.maximum(first_along.abs(), second_along.abs()) + b.half_x_m
    reach_across = torch.maximum(first_across.abs(), second_across.abs()) + b.half_y_m
    return nearest_m2, (along.abs() > reach_along) | (across.abs() > reach_across)


def _rotated(x: Tensor, y: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return x * cos - y * sin, x * sin + y * cos
