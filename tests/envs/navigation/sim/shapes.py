"""Distances between shapes seen from above, by slow loops over corners and edges in float64."""

import math


def corners(x, y, half_x, half_y, cos, sin):
    """The corners of a turned rectangle, counter-clockwise."""
    return [
        (x + u * half_x * cos - v * half_y * sin, y + u * half_x * sin + v * half_y * cos)
        for u, v in ((1, 1), (-1, 1), (-1, -1), (1, -1))
    ]


def edges(polygon):
    return list(zip(polygon, polygon[1:] + polygon[:1], strict=True))


def side(a, b, p):
    """Above 0: p is to the left of the line from a to b."""
    return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])


def to_segment(p, a, b):
    length2 = (b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2
    if length2 == 0.0:
        return math.dist(p, a)
    part = ((p[0] - a[0]) * (b[0] - a[0]) + (p[1] - a[1]) * (b[1] - a[1])) / length2
    part = min(max(part, 0.0), 1.0)
    return math.dist(p, (a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1])))


def point_gap(p, polygon):
    """Distance from a point to a convex polygon, which may be a point itself; 0 inside."""
    sides = [side(a, b, p) for a, b in edges(polygon)]
    if min(sides) >= 0.0 and max(sides) > 0.0:
        return 0.0
    return min(to_segment(p, a, b) for a, b in edges(polygon))


def cross(a, b, c, d):
    return side(a, b, c) * side(a, b, d) < 0.0 and side(c, d, a) * side(c, d, b) < 0.0


def polygon_gap(first, second):
    """Distance between two convex polygons; 0 where they overlap."""
    if any(cross(*one, *other) for one in edges(first) for other in edges(second)):
        return 0.0
    return min(*(point_gap(p, second) for p in first), *(point_gap(p, first) for p in second))


def box_rows(boxes, world):
    """(x, y, half_x, half_y, cos, sin, bottom, top) of the boxes that are there, as Python numbers."""
    rows = zip(*(field[world].double().tolist() for field in boxes), strict=True)
    return [(number, row) for number, row in enumerate(rows) if row[0] < 1e5]


def cylinder_rows(cylinders, world):
    """(x, y, radius, bottom, top) of the cylinders that are there."""
    rows = zip(*(field[world].double().tolist() for field in cylinders), strict=True)
    return [(number, row) for number, row in enumerate(rows) if row[0] < 1e5]


def clearance(boxes, cylinders, world, point):
    """Distance from a point to the nearest obstacle in three dimensions."""
    nearest = math.inf
    for _, (*rectangle, bottom, top) in box_rows(boxes, world):
        level = point_gap(point[:2], corners(*rectangle))
        nearest = min(nearest, math.hypot(level, max(bottom - point[2], point[2] - top, 0.0)))
    for _, (x, y, radius, bottom, top) in cylinder_rows(cylinders, world):
        level = max(math.dist(point[:2], (x, y)) - radius, 0.0)
        nearest = min(nearest, math.hypot(level, max(bottom - point[2], point[2] - top, 0.0)))
    return nearest
