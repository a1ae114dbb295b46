"""Exact distances: from a point to the nearest static obstacle, and between two footprints."""

import torch
from torch import Tensor

from navrl.envs.navigation.sim.static_obstacles import (
    Boxes,
    Cylinders,
    Footprint,
    Grid,
    Worlds,
    listed,
)

_CHUNK = 1 << 21  # pairs per temporary tensor


def clearance_m(boxes: Boxes, cylinders: Cylinders, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Return the distance (G, P) from points (G, P) to the nearest obstacle of their world, 0 inside.

    In three dimensions: a point above a low pillar, or below a floating box, is as far as it is high.
    """
    count = boxes.x.shape[1] + cylinders.x.shape[1]
    at_once = max(1, _CHUNK // max(1, x.shape[0] * count))
    parts = zip(*(torch.split(axis, at_once, dim=1) for axis in (x, y, z)), strict=True)
    return torch.cat([_clearance_m(boxes, cylinders, *part) for part in parts], dim=1)


def clearance_in_sight_m(
    grid: Grid, worlds: Worlds, world: Tensor, x: Tensor, y: Tensor, z: Tensor
) -> Tensor:
    """Return the clearance of points (N,) in worlds int64 (N,), limited to the grid's reach_m."""
    cell = world * grid.cells + grid.cell_index(x, y)
    boxes = Boxes(*listed(worlds.boxes, worlds.box_cells, world, cell))
    cylinders = Cylinders(*listed(worlds.cylinders, worlds.cylinder_cells, world, cell))
    return _least_m(boxes, cylinders, x, y, z).clamp_max(grid.reach_m)


def _clearance_m(boxes: Boxes, cylinders: Cylinders, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    box = Boxes(*(field.unsqueeze(1) for field in boxes))
    cylinder = Cylinders(*(field.unsqueeze(1) for field in cylinders))
    return _least_m(box, cylinder, x, y, z)


def _least_m(box: Boxes, cylinder: Cylinders, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Return the distance from points (...) to the nearest of their obstacles (..., K)."""
    nearest_m2 = torch.full_like(x, torch.inf)  # a world may have no obstacle
    x, y, z = x.unsqueeze(-1), y.unsqueeze(-1), z.unsqueeze(-1)
    to_box_m2 = _outside_m2(x - box.x, y - box.y, box) + _above_m2(z, box)
    to_axis_m = torch.sqrt((x - cylinder.x).square() + (y - cylinder.y).square())
    to_cylinder_m2 = (to_axis_m - cylinder.radius_m).clamp_min(0.0).square() + _above_m2(
        z, cylinder
    )
    for found_m2 in (to_box_m2, to_cylinder_m2):
        if found_m2.shape[-1] > 0:
            nearest_m2 = torch.minimum(nearest_m2, found_m2.amin(-1))
    return nearest_m2.sqrt()


def _outside_m2(east: Tensor, north: Tensor, shape: Boxes | Footprint) -> Tensor:
    """Return the squared distance to a rectangle from a point relative to its middle."""
    along = east * shape.cos_yaw + north * shape.sin_yaw
    across = north * shape.cos_yaw - east * shape.sin_yaw
    return _beyond_m2(along, shape.half_x_m) + _beyond_m2(across, shape.half_y_m)


def _above_m2(z: Tensor, shape: Boxes | Cylinders) -> Tensor:
    """Return the squared height above the top or below the bottom; 0 between them."""
    return torch.maximum(shape.bottom_m - z, z - shape.top_m).clamp_min(0.0).square()


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
