"""The pool of worlds: shares of the stages, impossible stages, and crowded worlds."""

import pytest
import torch

from navrl.envs.navigation.maps.pillars import PillarMap
from navrl.envs.navigation.sim.static_obstacles import Grid
from navrl.envs.navigation.worlds.pool import Difficulty, make_worlds, spread
from tests.envs.navigation.maps.examples import FOREST, SMALL_PILLARS, fields
from tests.envs.playing import keys

ROOM = Difficulty(350, 80)


def test_stages_are_spread_in_proportion():
    plan = spread({0: 0.1, 1: 0.1, 2: 0.8}, 64)
    for stage, exactly in enumerate((6.4, 6.4, 51.2)):
        assert abs(plan.count(stage) - exactly) < 1.0
    # and mixed: no part of the plan is of one kind only
    assert set(plan[:12]) == set(plan[-12:]) == {0, 1, 2}


@pytest.mark.parametrize(
    "wrong", [Difficulty(351, 0), Difficulty(-1, 0), Difficulty(0, 81), Difficulty(1.5, 0)]
)
def test_a_difficulty_without_room_is_refused_by_name(wrong):
    name = "moving" if wrong.moving else "static"
    with pytest.raises(ValueError, match=rf"here\.{name} = "):
        wrong.checked("here.", ROOM)


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


def test_only_worlds_with_a_crowded_place_are_drawn_again():
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
    many, limits = torch.full((2,), 60), {"boxes_per_cell": 3, "cylinders_per_cell": 0}
    with pytest.raises(ValueError, match=r"raise world\.boxes_per_cell"):
        make_worlds(SMALL_PILLARS, GRID, keys(2), many, **limits)
    assert len(calls) == 1  # and are not drawn again, which takes long in a dense world
