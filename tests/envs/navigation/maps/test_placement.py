"""Generated worlds: they depend on their key only, and impossible numbers are named."""

import dataclasses
import math

import pytest
import torch

from navrl.envs.navigation.maps.forest import ForestMap
from tests.envs.navigation.maps.examples import FOREST, PILLARS, SHAPES, SMALL_PILLARS, fields, made


def shape(name, **changes):
    return {"shapes": {name: dataclasses.replace(SHAPES[name], **changes)}}


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


def test_a_world_that_is_too_dense_names_the_option_to_lower():
    posts = shape("post", diameter_m=(1.0, 1.0))
    # With so wide a gap all must overlap the first one's cluster, and the second hardly ever does.
    dense = ForestMap(count=50, half_side_m=12.0, gap_m=40.0, attempts=100, **posts)
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
        (FOREST, shape("post", weight=0.0), "weights"),
        (FOREST, shape("post", diameter_m=(0.0, 1.0)), "diameter_m of shape post"),
        (FOREST, shape("box", bottom_m=(2.0, 1.0)), "bottom_m of shape box"),
    ],
)
def test_impossible_numbers_are_named(maker, changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(maker, **changes).checked()
