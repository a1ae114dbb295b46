"""What holds for every generated world: its key decides all, and impossible numbers are named."""

import dataclasses
import math

import pytest
import torch

from navrl.envs.navigation.maps.forest import ForestMap
from navrl.envs.navigation.maps.pillars import PillarMap
from navrl.envs.navigation.sim.static_obstacles import Grid
from navrl.envs.navigation.worlds.pool import make_worlds
from tests.envs.navigation.worlds.maps import (
    FOREST,
    PILLARS,
    SHAPES,
    SMALL_PILLARS,
    fields,
    keys,
    made,
)


@pytest.mark.parametrize("maker", [SMALL_PILLARS, FOREST])
def test_a_world_depends_on_its_key_only(maker):
    together = made(maker, range(5))
    for number in range(5):
        alone = made(maker, [number])
        for field, expected in zip(fields(alone), fields(together), strict=True):
            assert torch.equal(field[0], expected[number])
    assert len({float(x) for x in together.boxes.y[:, 0]}) > 1


@pytest.mark.parametrize("maker", [SMALL_PILLARS, FOREST])
def test_fewer_obstacles_are_the_first_ones_and_shapes_stay(maker):
    counts = [0, 20, 60]
    whole, part = made(maker, range(3)), made(maker, range(3), counts)
    larger = made(dataclasses.replace(maker, count=maker.count + 9), range(3), counts)
    for field, less, more in zip(fields(whole), fields(part), fields(larger), strict=True):
        assert less.shape == field.shape
        for world, count in enumerate(counts):
            assert torch.equal(less[world, :count], field[world, :count])
            assert torch.equal(less[world], more[world, : field.shape[1]])
    for x in (part.boxes.x, *([part.cylinders.x] if maker is FOREST else [])):
        for world, count in enumerate(counts):
            assert (x[world, count:] == 1e6).all()


def test_more_obstacles_than_the_map_has_are_an_error():
    with pytest.raises(ValueError, match=r"61 obstacles .* count=60; raise its count"):
        made(SMALL_PILLARS, range(2), [3, 61])
    with pytest.raises(ValueError, match="count"):
        made(FOREST, range(2), [-1, 3])


def test_a_world_that_is_too_dense_says_what_to_lower():
    shapes = {"post": dataclasses.replace(SHAPES["post"], diameter_m=(1.0, 1.0))}
    # With so wide a gap all must overlap the first one's cluster, and the second hardly ever does.
    dense = ForestMap(count=50, half_side_m=12.0, gap_m=40.0, shapes=shapes, attempts=100)
    with pytest.raises(
        ValueError, match=r"too dense: \d+ of 50 obstacles .* lower count or gap_m$"
    ):
        made(dense.checked(), range(2))
    dense = dataclasses.replace(PILLARS, forbidden_gap_cells=(2.0, 500.0), attempts=10)
    with pytest.raises(ValueError, match="lower count or forbidden_gap_cells"):
        made(dense.checked(), range(2))


@pytest.mark.parametrize(
    ("maker", "changes", "message"),
    [
        (PILLARS, {"count": 0}, r"^world\.map\.count = 0"),
        (PILLARS, {"cell_m": 0.0}, "cell_m"),
        (PILLARS, {"attempts": 0}, "attempts"),
        (PILLARS, {"sizes_cells": ()}, "sizes_cells"),
        (PILLARS, {"sizes_cells": (1,)}, "sizes_cells"),
        (PILLARS, {"sizes_cells": (401,)}, "sizes_cells"),
        (PILLARS, {"height_edges_m": (2.0, 1.0)}, "height_edges_m"),
        (PILLARS, {"height_weights": (1.0,)}, "height_weights"),
        (PILLARS, {"height_weights": (0.0, 0.0, 0.0, 0.0)}, "height_weights"),
        (PILLARS, {"forbidden_gap_cells": (5.0, 2.0)}, "forbidden_gap_cells"),
        (FOREST, {"count": 0}, r"^world\.map\.count = 0"),
        (FOREST, {"gap_m": -1.0}, "gap_m"),
        (FOREST, {"gap_m": math.nan}, "gap_m"),
        (FOREST, {"half_side_m": 2.0}, "shape wall of up to 4 m does not fit"),
        (FOREST, {"half_side_m": math.inf}, "half_side_m"),
        (FOREST, {"shapes": {}}, "one shape or more"),
        (FOREST, {"shapes": {"post": dataclasses.replace(SHAPES["post"], weight=0.0)}}, "weights"),
        (
            FOREST,
            {"shapes": {"post": dataclasses.replace(SHAPES["post"], diameter_m=(0.0, 1.0))}},
            "diameter_m of shape post",
        ),
        (
            FOREST,
            {"shapes": {"box": dataclasses.replace(SHAPES["box"], bottom_m=(2.0, 1.0))}},
            "bottom_m of shape box",
        ),
    ],
)
def test_impossible_numbers_are_named(maker, changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(maker, **changes).checked()


def test_makers_give_obstacles_that_are_float32_and_whole():
    for maker in (SMALL_PILLARS, FOREST):
        for field in fields(made(maker, range(2))):
            assert field.dtype == torch.float32
            assert field.isfinite().all()


GRID = Grid(half_extent_m=13.0, cell_m=1.0, reach_m=4.0)


def most_in_a_cell(worlds):
    """Boxes and cylinders in the fullest cell of each world."""
    return [
        (table < kind.x.shape[1] - 1).sum(-1).amax(-1)
        for kind, table in (
            (worlds.boxes, worlds.box_cells),
            (worlds.cylinders, worlds.cylinder_cells),
        )
    ]


def test_only_worlds_with_a_crowded_place_are_drawn_anew():
    key, count = keys(range(8)), torch.full((8,), 120)
    whole, worlds = make_worlds(FOREST, GRID, key, count, boxes_per_cell=60, cylinders_per_cell=60)
    for field, expected in zip(fields(whole), fields(FOREST.make(key, count)), strict=True):
        assert torch.equal(field, expected)
    boxes, cylinders = most_in_a_cell(worlds)
    limit = int(boxes.max()) - 1
    tight, worlds = make_worlds(
        FOREST, GRID, key, count, boxes_per_cell=limit, cylinders_per_cell=int(cylinders.max()) + 3
    )
    crowded = boxes > limit
    assert 0 < int(crowded.sum()) < 8
    assert int(most_in_a_cell(worlds)[0].max()) <= limit
    for world in range(8):
        assert torch.equal(tight.boxes.y[world], whole.boxes.y[world]) != bool(crowded[world])
    alone, _ = make_worlds(
        FOREST,
        GRID,
        key[crowded][:1],
        count[:1],
        boxes_per_cell=limit,
        cylinders_per_cell=int(cylinders.max()) + 3,
    )
    assert torch.equal(alone.boxes.y[0], tight.boxes.y[crowded][0])


def test_tables_that_are_too_small_for_most_worlds_are_an_error_at_once(monkeypatch):
    calls, make = [], PillarMap.make
    monkeypatch.setattr(PillarMap, "make", lambda *arguments: calls.append(1) or make(*arguments))
    with pytest.raises(ValueError, match=r"raise world\.boxes_per_cell"):
        make_worlds(
            SMALL_PILLARS,
            GRID,
            keys(range(2)),
            torch.full((2,), 60),
            boxes_per_cell=3,
            cylinders_per_cell=0,
        )
    assert len(calls) == 1  # and are not drawn again, which takes long in a dense world
