"""Starts and goals: where they are, how far apart, and that nothing stands there."""

import dataclasses
import math

import pytest
import torch

from navrl.envs.navigation.sim.static_obstacles import (
    Boxes,
    StaticObstacles,
    absent_boxes,
    absent_cylinders,
)
from navrl.envs.navigation.worlds.routes import FreeRoutes, PerimeterRoutes
from tests.envs.navigation.maps.examples import FOREST, binomial, made
from tests.envs.navigation.sim.shapes import clearance
from tests.envs.playing import keys

PERIMETER = PerimeterRoutes(
    half_side_m=24.0, z_m=(0.5, 2.5), distance_m=(0.0, math.inf), clearance_m=0.0, attempts=8
).checked()
FREE = FreeRoutes(
    x_m=(-10.0, 10.0),
    y_m=(-8.0, 8.0),
    z_m=(0.5, 2.5),
    distance_m=(6.0, 12.0),
    clearance_m=0.6,
    attempts=2_000,
).checked()


def nothing(worlds):
    return StaticObstacles(absent_boxes(worlds, 1), absent_cylinders(worlds, 0))


def lengths(routes):
    return (routes.goal - routes.start).double().square().sum(0).sqrt()


@pytest.fixture(scope="module")
def perimeter():
    return PERIMETER.make(keys(range(16)), nothing(16), 512)


@pytest.fixture(scope="module")
def forest():
    return made(FOREST, range(4), 80)


def sides(points):
    """0 to 3 for west, east, south and north of the perimeter."""
    x, y = points[0], points[1]
    on = torch.stack([x == -24.0, x == 24.0, y == -24.0, y == 24.0])
    assert on.any(0).all()
    return on.to(torch.int64).argmax(0)


def test_perimeter_points_are_evenly_on_the_four_sides(perimeter):
    for points in perimeter:
        assert points.shape == (3, 16, 512)
        side = sides(points)
        total = side.numel()
        for number in range(4):
            assert abs(int((side == number).sum()) - total / 4) < binomial(total, 0.25)
        along = torch.where(side < 2, points[1], points[0])
        for value, low, high in ((along, -24.0, 24.0), (points[2], 0.5, 2.5)):
            part = (value - low) / (high - low)
            assert 0.0 <= float(part.min()) < 0.01
            assert 0.99 < float(part.max()) <= 1.0
            assert float(part.mean()) == pytest.approx(0.5, abs=5.0 / math.sqrt(12.0 * total))


def test_perimeter_start_and_goal_are_independent(perimeter):
    same = sides(perimeter.start) == sides(perimeter.goal)
    total = same.numel()
    assert abs(int(same.sum()) - total / 4) < binomial(total, 0.25)
    # The mean straight line of the original; its deviation of about 14 m over 8192 routes is 0.16 m.
    assert float(lengths(perimeter).mean()) == pytest.approx(35.4, abs=0.8)
    assert float(lengths(perimeter).min()) < 3.0


def test_free_routes_are_free_and_as_long_as_configured(forest):
    routes = FREE.make(keys(range(4)), forest, 60)
    distance_m = lengths(routes)
    assert float(distance_m.min()) >= 6.0 - 1e-5
    assert float(distance_m.max()) <= 12.0 + 1e-5
    above_or_below = 0
    for points in routes:
        for axis, (low, high) in enumerate((FREE.x_m, FREE.y_m, FREE.z_m)):
            assert float(points[axis].min()) >= low
            assert float(points[axis].max()) <= high
        for world in range(4):
            for x, y, z in points[:, world].T.double().tolist():
                assert clearance(*forest, world, (x, y, z)) >= 0.6 - 1e-5
                everything_tall = StaticObstacles(
                    forest.boxes._replace(
                        bottom_m=torch.zeros_like(forest.boxes.x),
                        top_m=torch.full_like(forest.boxes.x, 9.0),
                    ),
                    forest.cylinders._replace(top_m=torch.full_like(forest.cylinders.x, 9.0)),
                )
                above_or_below += clearance(*everything_tall, world, (x, y, z)) < 0.6
    assert above_or_below > 10  # what is low, or floats, does not forbid the air above and below


def test_every_distance_is_as_likely_as_any_other_in_a_wide_world():
    wide = dataclasses.replace(FREE, x_m=(-500.0, 500.0), y_m=(-500.0, 500.0))
    routes = wide.make(keys(range(4)), nothing(4), 500)
    part = (lengths(routes) - 6.0) / 6.0
    assert float(part.mean()) == pytest.approx(0.5, abs=5.0 / math.sqrt(12.0 * part.numel()))
    east = (routes.goal - routes.start)[0] > 0
    assert abs(int(east.sum()) - 1000) < binomial(2000, 0.5)


@pytest.mark.parametrize("distance_m", [(10.0, 35.0), (30.0, 56.0)])
def test_every_distance_is_as_likely_as_any_other_in_a_narrow_world(distance_m):
    """In the square of the preset, where most long routes do not fit: by the chi-square of fifty parts.

    Its mean is 49 and its deviation sqrt(2 * 49) = 9.9; distances drawn anew with every attempt gave 749 and
    6,199.
    """
    forest = dataclasses.replace(
        FREE, x_m=(-20.0, 20.0), y_m=(-20.0, 20.0), z_m=(0.8, 2.5), distance_m=distance_m
    )
    routes = forest.checked().make(keys(range(4)), nothing(4), 1_000)
    low, high = distance_m
    part = ((lengths(routes) - low) / (high - low)).flatten()
    counts = torch.bincount((50.0 * part).long().clamp(0, 49), minlength=50).double()
    assert float((counts - 80.0).square().sum() / 80.0) < 49.0 + 5.0 * math.sqrt(98.0)
    for points in routes:
        assert points[:2].abs().max() <= 20.0
        # As many west as east, and south as north.
        for axis in range(2):
            assert abs(int((points[axis] > 0.0).sum()) - 2000) < binomial(4000, 0.5)
    way = routes.goal - routes.start
    for axis in range(2):
        assert abs(int((way[axis] > 0.0).sum()) - 2000) < binomial(4000, 0.5)


def test_crowded_places_make_no_distance_rarer():
    """Half of the square is one low plate, over which nobody may begin or end: long routes fit seldom."""
    one = torch.ones((1, 1))
    zero = torch.zeros_like(one)
    plate = Boxes(10.0 * one, zero, 10.0 * one, 30.0 * one, one, zero, zero, 2.0 * one)
    crowded = StaticObstacles(plate, absent_cylinders(1, 0))
    maker = dataclasses.replace(
        FREE, x_m=(-20.0, 20.0), y_m=(-20.0, 20.0), z_m=(0.8, 2.5), distance_m=(10.0, 40.0)
    )
    part = ((lengths(maker.checked().make(keys([0]), crowded, 2_000)) - 10.0) / 30.0).flatten()
    counts = torch.bincount((20.0 * part).long().clamp(0, 19), minlength=20).double()
    assert float((counts - 100.0).square().sum() / 100.0) < 19.0 + 5.0 * math.sqrt(38.0)


def test_height_counts_in_the_distance_so_that_a_narrow_range_needs_no_luck():
    narrow = dataclasses.replace(FREE, z_m=(0.5, 4.0), distance_m=(7.0, 7.001), attempts=80)
    distance_m = lengths(narrow.checked().make(keys(range(2)), nothing(2), 100))
    assert float((distance_m - 7.0005).abs().max()) < 0.0005 + 1e-5


@pytest.mark.parametrize("maker", [PERIMETER, FREE])
def test_routes_depend_on_the_key_only(maker, forest):
    key = keys(range(4))
    together = maker.make(key, forest, 20)
    fewer = maker.make(key, forest, 7)
    for world in range(4):
        one = StaticObstacles(
            *(type(kind)(*(field[world : world + 1] for field in kind)) for kind in forest)
        )
        alone = maker.make(key[world : world + 1], one, 20)
        for points, expected, few in zip(alone, together, fewer, strict=True):
            assert torch.equal(points[:, 0], expected[:, world])
            assert torch.equal(few[:, world], expected[:, world, :7])
    assert not torch.equal(together.start[:, 0], together.start[:, 1])


def test_without_a_clearance_no_route_begins_or_ends_inside_an_obstacle(forest):
    routes = dataclasses.replace(FREE, clearance_m=0.0).checked().make(keys(range(4)), forest, 60)
    gaps = [
        clearance(*forest, world, point)
        for points in routes
        for world in range(4)
        for point in points[:, world].T.double().tolist()
    ]
    assert 0.0 < min(gaps) < 0.3


def low_plate(top_m):
    """One box under the whole rectangle of FREE."""
    one = torch.ones((1, 1))
    zero = torch.zeros_like(one)
    return StaticObstacles(
        Boxes(zero, zero, 30.0 * one, 30.0 * one, one, zero, zero, top_m * one),
        absent_cylinders(1, 0),
    )


def test_a_world_without_space_is_an_error():
    with pytest.raises(ValueError, match=r"^the world is too dense to spawn in: 5 of 5 routes .*$"):
        dataclasses.replace(FREE, attempts=64).make(keys([0]), low_plate(2.0), 5)


@pytest.mark.parametrize(
    ("maker", "changes", "message"),
    [
        (PERIMETER, {"half_side_m": 0.0}, "half_side_m"),
        (PERIMETER, {"distance_m": (70.0, math.inf)}, r"change world\.routes\.distance_m"),
        (PERIMETER, {"z_m": (2.0, 1.0)}, "z_m"),
        (PERIMETER, {"attempts": 0}, "attempts"),
        (FREE, {"x_m": (1.0, 1.0)}, "x_m"),
        (FREE, {"distance_m": (0.0, 5.0)}, "distance_m"),
        (FREE, {"distance_m": (5.0, 26.0)}, "the diagonal"),
        (FREE, {"clearance_m": -1.0}, "clearance_m"),
    ],
)
def test_impossible_numbers_are_named(maker, changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(maker, **changes).checked()
