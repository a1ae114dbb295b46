"""Our map: the gaps between obstacles of any shape, and how often which shape and size occurs."""

import itertools
import math

import pytest
import torch

from tests.envs.navigation.maps.examples import FOREST, SHAPES, binomial, made
from tests.envs.navigation.sim.shapes import box_rows, corners, cylinder_rows, polygon_gap


@pytest.fixture(scope="module")
def forest():
    return made(FOREST, range(32))


def test_forest_obstacles_overlap_or_are_the_gap_apart(forest):
    touching = 0
    for world in range(3):
        shapes = [(corners(*row[:6]), 0.0) for _, row in box_rows(forest.boxes, world)]
        for _, (x, y, radius, _, _) in cylinder_rows(forest.cylinders, world):
            shapes.append((corners(x, y, 0.0, 0.0, 1.0, 0.0), radius))
        assert len(shapes) == 120
        for (one, radius), (other, radius_2) in itertools.combinations(shapes, 2):
            if math.dist(one[0], other[0]) < 12.0:
                gap = polygon_gap(one, other) - radius - radius_2
                assert not 1e-4 < gap < 1.0 - 1e-4
                touching += gap <= 1e-4
    assert touching > 10


def test_forest_obstacles_lie_inside_the_square_as_a_whole(forest):
    farthest = 0.0
    for world in range(32):
        for _, row in box_rows(forest.boxes, world):
            farthest = max(
                farthest, *(abs(number) for corner in corners(*row[:6]) for number in corner)
            )
        for _, (x, y, radius, _, _) in cylinder_rows(forest.cylinders, world):
            farthest = max(farthest, abs(x) + radius, abs(y) + radius)
    assert 11.9 < farthest < 12.0 + 1e-4


def shapes_in(forest):
    """The boxes that are there by the name of their shape, as rows of length, width, bottom and height."""
    boxes = forest.boxes
    there = boxes.x < 1e5
    rows = torch.stack(
        [2 * boxes.half_x_m, 2 * boxes.half_y_m, boxes.bottom_m, boxes.top_m - boxes.bottom_m]
    )
    wall, floating = boxes.half_x_m >= 1.0, boxes.bottom_m > 0.0
    return {
        "wall": rows[:, there & wall],
        "floating": rows[:, there & floating],
        "box": rows[:, there & ~wall & ~floating],
    }


def test_forest_shapes_are_as_frequent_as_their_weights(forest):
    total = forest.boxes.x.numel()
    seen = {name: rows.shape[1] for name, rows in shapes_in(forest).items()}
    seen["post"] = int((forest.cylinders.x < 1e5).sum())
    assert sum(seen.values()) == total == 32 * 120
    for name, shape in SHAPES.items():
        share = shape.weight / 10.0
        assert abs(seen[name] - total * share) < binomial(total, share)


def test_forest_sizes_fill_their_ranges_evenly(forest):
    rows = shapes_in(forest)
    measured = [
        (number, getattr(SHAPES[name], option))
        for name in rows
        for number, option in zip(
            rows[name], ("length_m", "width_m", "bottom_m", "tall_m"), strict=True
        )
    ]
    posts = forest.cylinders
    there = posts.x < 1e5
    measured += [(2 * posts.radius_m[there], (0.2, 0.8)), (posts.top_m[there], (2.0, 6.0))]
    for number, (low, high) in measured:
        assert float(number.min()) >= low - 1e-5
        assert float(number.max()) <= high + 1e-5
        if high > low:
            part = (number - low) / (high - low)
            tolerance = 5.0 / math.sqrt(12.0 * number.numel())
            assert float(part.mean()) == pytest.approx(0.5, abs=tolerance)


def test_only_shapes_that_turn_are_turned(forest):
    boxes = forest.boxes
    wall, floating = boxes.half_x_m >= 1.0, boxes.bottom_m > 0.0
    plain = (boxes.x < 1e5) & ~wall & ~floating
    assert (boxes.cos_yaw[plain] == 1.0).all()
    assert (boxes.sin_yaw[plain] == 0.0).all()
    for turned in (wall, floating):
        cos, sin = boxes.cos_yaw[turned], boxes.sin_yaw[turned]
        torch.testing.assert_close(cos.square() + sin.square(), torch.ones_like(cos))
        # At any angle in [0, 180) degrees: cos and sin 2a average to 0, with deviation 1 / sqrt(2 n).
        for double in (cos.square() - sin.square(), 2.0 * sin * cos):
            assert abs(float(double.mean())) < 5.0 / math.sqrt(2.0 * double.numel())
