"""A lidar in three dimensions and float64: each ray against all obstacles, by slabs and quadratics."""

import math

import torch

INF = math.inf


def slab(offset, along, low, high):
    """Distances at which rays enter and leave the space between two planes; all rays, all obstacles."""
    parallel = along == 0.0
    inside = (low <= offset) & (offset <= high)
    step = torch.where(parallel, 1.0, along)
    first, second = (low - offset) / step, (high - offset) / step
    enter = torch.where(parallel, torch.where(inside, -INF, INF), torch.minimum(first, second))
    leave = torch.where(parallel, torch.where(inside, INF, -INF), torch.maximum(first, second))
    return enter, leave


def first_of(enter, leave):
    """Distance at which a ray first is in an obstacle, (rays,)."""
    enter = enter.clamp_min(0.0)
    return torch.where(enter <= leave, enter, INF).amin(-1)


def to_boxes(boxes, origin, ray, grow):
    x, y, half_x, half_y, cos, sin, bottom, top = (field.double().unsqueeze(0) for field in boxes)
    east, north = origin[0] - x, origin[1] - y
    one = slab(east * cos + north * sin, ray[0] * cos + ray[1] * sin, -half_x - grow, half_x + grow)
    two = slab(north * cos - east * sin, ray[1] * cos - ray[0] * sin, -half_y - grow, half_y + grow)
    three = slab(origin[2], ray[2], bottom - grow, top + grow)
    enter = torch.stack(torch.broadcast_tensors(one[0], two[0], three[0])).amax(0)
    leave = torch.stack(torch.broadcast_tensors(one[1], two[1], three[1])).amin(0)
    return first_of(enter, leave)


def to_cylinders(cylinders, origin, ray, grow):
    x, y, radius, bottom, top = (field.double().unsqueeze(0) for field in cylinders)
    east, north, radius = origin[0] - x, origin[1] - y, radius + grow
    a = ray[0] ** 2 + ray[1] ** 2
    half_b = east * ray[0] + north * ray[1]
    square = half_b**2 - a * (east**2 + north**2 - radius**2)
    root = square.clamp_min(0.0).sqrt()
    missed = (square < 0.0) | (radius < 0.0)
    enter = torch.where(missed, INF, (-half_b - root) / a)
    leave = torch.where(missed, -INF, (-half_b + root) / a)
    lower, upper = slab(origin[2], ray[2], bottom - grow, top + grow)
    return first_of(torch.maximum(enter, lower), torch.minimum(leave, upper))


def to_ground(origin, ray, grow):
    height = origin[2] - grow
    down = torch.where(ray[2] < 0.0, -ray[2], 1.0)
    return torch.where(ray[2] < 0.0, (height / down).clamp_min(0.0), INF).squeeze(-1)


def ranges(lidar, boxes, cylinders, sensors, grow=0.0):
    """Return the ranges of sensors (x, y, z, cos, sin), with all obstacles grown by so much."""
    x, y, z, cos, sin = (field.double() for field in sensors)
    beam = torch.arange(lidar.beams, dtype=torch.float64) * (2.0 * math.pi / lidar.beams)
    low, high = math.radians(lidar.ring_low_deg), math.radians(lidar.ring_high_deg)
    ring = torch.linspace(low, high, lidar.rings, dtype=torch.float64)
    ring = torch.where(ring.abs() < 1e-9, 0.0, ring)
    ahead = cos[:, None] * beam.cos() - sin[:, None] * beam.sin()
    left = sin[:, None] * beam.cos() + cos[:, None] * beam.sin()
    shape = (len(x), lidar.beams, lidar.rings)
    ray = [
        (ahead[..., None] * ring.cos()).expand(shape),
        (left[..., None] * ring.cos()).expand(shape),
        ring.sin().expand(shape),
    ]
    origin = [place[:, None, None].expand(shape) for place in (x, y, z)]
    ray = [part.reshape(-1, 1) for part in ray]
    origin = [part.reshape(-1, 1) for part in origin]
    found = [
        to_boxes(boxes, origin, ray, grow),
        to_cylinders(cylinders, origin, ray, grow),
        to_ground(origin, ray, grow),
    ]
    return torch.stack(found).amin(0).clamp_max(lidar.range_m).view(shape)
