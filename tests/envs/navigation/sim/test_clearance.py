"""Distances against loops over corners and edges in float64."""

import math

import pytest
import torch

from navrl.envs.navigation.sim.clearance import (
    Footprint,
    clearance_in_sight_m,
    clearance_m,
    rectangle_gap_m2,
)
from navrl.envs.navigation.sim.static_obstacles import (
    Boxes,
    Cylinders,
    Grid,
    absent_boxes,
    absent_cylinders,
    build_worlds,
)
from tests.envs.navigation.sim.shapes import clearance, corners, polygon_gap


def rand(seed, low, high, size):
    return low + (high - low) * torch.rand(size, generator=torch.Generator().manual_seed(seed))


def some_obstacles():
    """Boxes and cylinders (2, 12): some on the ground, some low, some floating; one of each is absent."""
    size = (2, 12)
    yaw, bottom_m = rand(1, 0.0, 6.28, size), rand(2, -1.5, 2.0, size).clamp_min(0.0)
    boxes = Boxes(
        rand(3, -5.0, 5.0, size),
        rand(4, -5.0, 5.0, size),
        rand(5, 0.1, 2.0, size),
        rand(6, 0.1, 0.6, size),
        yaw.cos(),
        yaw.sin(),
        bottom_m,
        bottom_m + rand(7, 0.3, 2.0, size),
    )
    cylinders = Cylinders(
        rand(8, -5.0, 5.0, size),
        rand(9, -5.0, 5.0, size),
        rand(10, 0.1, 1.0, size),
        bottom_m.flip(1),
        bottom_m.flip(1) + 1.0,
    )
    for kind in (boxes, cylinders):
        kind.x[:, -1] = kind.y[:, -1] = 1e6
    return boxes, cylinders


@pytest.mark.parametrize("chunk", [1 << 21, 100])
def test_clearance_is_the_distance_to_the_nearest_obstacle(monkeypatch, chunk):
    monkeypatch.setattr("navrl.envs.navigation.sim.clearance._CHUNK", chunk)
    boxes, cylinders = some_obstacles()
    points = torch.stack(
        [rand(11, -6, 6, (2, 150)), rand(12, -6, 6, (2, 150)), rand(13, 0, 5, (2, 150))]
    )
    found = clearance_m(boxes, cylinders, *points)
    expected = torch.tensor(
        [[clearance(boxes, cylinders, w, p) for p in points[:, w].T.tolist()] for w in range(2)]
    )
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert (expected == 0.0).any()
    assert (expected > 0.5).any()


def test_an_empty_world_is_free_and_no_points_are_no_error():
    x = torch.zeros((2, 3))
    assert (clearance_m(absent_boxes(2, 0), absent_cylinders(2, 0), x, x, x) == math.inf).all()
    boxes, cylinders = some_obstacles()
    assert clearance_m(boxes, cylinders, x[:, :0], x[:, :0], x[:, :0]).shape == (2, 0)


def test_the_gap_between_rectangles_is_exact_and_symmetric():
    size = (600,)
    yaw = rand(20, 0.0, 6.28, (2, *size))
    yaw[:, :100] = 0.0  # along the axes
    x, y = rand(21, -2.5, 2.5, (2, *size)), rand(22, -2.5, 2.5, (2, *size))
    half_x, half_y = rand(23, 0.05, 2.0, (2, *size)), rand(24, 0.0, 0.6, (2, *size))
    half_x[0, 500:] = half_y[0, 500:] = 0.0  # a point
    a, b = (
        Footprint(x[i], y[i], half_x[i], half_y[i], yaw[i].cos(), yaw[i].sin(), torch.zeros(size))
        for i in range(2)
    )
    found = rectangle_gap_m2(a, b).sqrt()
    rows = [
        zip(*(field.double().tolist() for field in fields[:6]), strict=True) for fields in (a, b)
    ]
    expected = torch.tensor(
        [polygon_gap(corners(*one), corners(*other)) for one, other in zip(*rows, strict=True)]
    )
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(found, rectangle_gap_m2(b, a).sqrt(), atol=2e-6, rtol=1e-5)
    assert 100 < int((expected == 0.0).sum()) < 500


@pytest.mark.parametrize("points", [1, 64])
def test_what_cells_list_is_enough_up_to_their_reach(points):
    boxes, cylinders = some_obstacles()
    grid = Grid(half_extent_m=8.0, cell_m=1.0, reach_m=2.0)
    worlds = build_worlds(grid, boxes, cylinders, boxes_per_cell=16, cylinders_per_cell=16)
    world = torch.arange(points) % 2
    x, y = rand(31, -9.0, 9.0, points), rand(32, -9.0, 9.0, points)  # some outside of the grid
    z = rand(33, 0.0, 4.0, points)
    still = torch.zeros(3, points)
    found = clearance_in_sight_m(grid, worlds, world, torch.stack([x, y, z]), still)
    for number in range(points):
        point = [float(field[number].double()) for field in (x, y, z)]
        slow = min(clearance(boxes, cylinders, int(world[number]), point), 2.0)
        assert float(found[number]) == pytest.approx(slow, abs=1e-4)
    if points > 1:
        assert (found < 0.3).any()
        assert (found == 2.0).any()


def test_the_least_clearance_of_a_flight_is_that_of_two_thousand_points_on_it():
    """Flights of up to 1.7 m, as at 20 m/s along all axes: many ends are far from what they passed."""
    flights, points = 300, 2_000
    boxes, cylinders = some_obstacles()
    grid = Grid(half_extent_m=8.0, cell_m=1.0, reach_m=4.0)
    worlds = build_worlds(grid, boxes, cylinders, boxes_per_cell=16, cylinders_per_cell=16)
    world = torch.arange(flights) % 2
    end = torch.stack([rand(41, -6, 6, flights), rand(42, -6, 6, flights), rand(43, 0, 4, flights)])
    way = torch.stack([rand(axis, -1.0, 1.0, flights) for axis in (44, 45, 46)])
    way[2, :100] = 0.0  # level
    found = clearance_in_sight_m(grid, worlds, world, end, way)
    on_way = end.unsqueeze(-1) - way.unsqueeze(-1) * torch.linspace(0.0, 1.0, points)
    slow = torch.stack(
        [
            clearance_m(boxes, cylinders, *each.expand(2, -1, -1).movedim(1, 0))
            for each in on_way.movedim(1, 0)
        ]
    )[torch.arange(flights), world]  # (flights, points); clearance_m is compared with loops above
    expected = slow.amin(-1).clamp_max(4.0)
    # Between two of the points the distance is at most half of their distance shorter.
    torch.testing.assert_close(found, expected, atol=5e-4, rtol=0.0)
    assert (found <= slow[:, 0].clamp_max(4.0) + 1e-6).all()
    tunnelled = (expected < 0.3) & (slow[:, 0] >= 0.3)
    assert tunnelled.sum() > 20
