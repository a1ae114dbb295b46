"""The table of what can be seen from a cell, against loops over corners and edges in float64."""

import math

import pytest
import torch

from navrl.envs.navigation.sim.static_obstacles import (
    Boxes,
    Cylinders,
    Grid,
    absent_boxes,
    absent_cylinders,
    build_cells,
    build_worlds,
)
from tests.envs.navigation.sim.shapes import (
    box_rows,
    corners,
    cylinder_rows,
    point_gap,
    polygon_gap,
)

GRID = Grid(half_extent_m=9.0, cell_m=1.5, reach_m=2.5)


def uniform(generator, low, high, size=(3, 24)):
    return low + (high - low) * torch.rand(size, generator=generator)


def some_boxes(turned=True):
    generator = torch.Generator().manual_seed(3)
    yaw = uniform(generator, 0.0, 2.0 * math.pi) * turned
    zero = torch.zeros_like(yaw)
    return Boxes(
        uniform(generator, -6.0, 6.0),
        uniform(generator, -6.0, 6.0),
        uniform(generator, 0.1, 1.5),
        uniform(generator, 0.05, 1.0),
        yaw.cos(),
        yaw.sin(),
        zero,
        zero + 2.0,
    )


def some_cylinders():
    generator = torch.Generator().manual_seed(4)
    x, y = uniform(generator, -6.0, 6.0), uniform(generator, -6.0, 6.0)
    radius_m = uniform(generator, 0.05, 1.5)
    return Cylinders(x, y, radius_m, torch.zeros_like(x), torch.ones_like(x))


def built(boxes, cylinders, boxes_per_cell=24, cylinders_per_cell=24, grid=GRID):
    return build_worlds(
        grid, boxes, cylinders, boxes_per_cell=boxes_per_cell, cylinders_per_cell=cylinders_per_cell
    )


def square(cell):
    """The corners of a cell of GRID."""
    row, column = divmod(cell, 12)
    return corners(column * 1.5 - 8.25, row * 1.5 - 8.25, 0.75, 0.75, 1.0, 0.0)


def listed(table, world, cell, absent):
    """The indices in a cell, and nothing twice."""
    numbers = [number for number in table[world, cell].tolist() if number != absent]
    assert len(set(numbers)) == len(numbers)
    return set(numbers)


@pytest.mark.parametrize("turned", [False, True])
def test_a_cell_lists_every_box_within_reach_and_few_others(turned):
    boxes = some_boxes(turned)
    worlds = built(boxes, absent_cylinders(3, 0), cylinders_per_cell=0)
    # A cell counts as the rectangle around it along the axes of the box, at most half a cell more.
    slack = 0.76 if turned else 0.002
    for world in range(3):
        polygons = [(n, corners(*row[:6])) for n, row in box_rows(boxes, world)]
        for cell in range(0, GRID.cells, 2):
            gaps = {n: polygon_gap(square(cell), polygon) for n, polygon in polygons}
            found = listed(worlds.box_cells, world, cell, absent=24)
            assert {n for n, gap in gaps.items() if gap <= 2.5} <= found
            assert all(gaps[n] <= 2.5 + slack for n in found)


def test_every_position_finds_all_that_is_within_reach_even_outside_of_the_grid():
    boxes, cylinders = some_boxes(), some_cylinders()
    worlds = built(boxes, cylinders)
    places = uniform(torch.Generator().manual_seed(5), -13.0, 13.0, (2, 300))
    cells = GRID.cell_index(*places)
    seen = 0
    for world in range(3):
        polygons = [(n, corners(*row[:6])) for n, row in box_rows(boxes, world)]
        rounds = cylinder_rows(cylinders, world)
        for place, cell in zip(places.T.double().tolist(), cells.tolist(), strict=True):
            near = {n for n, polygon in polygons if point_gap(place, polygon) <= 2.5}
            assert near <= listed(worlds.box_cells, world, cell, absent=24)
            seen += len(near)
            near = {n for n, (x, y, r, _, _) in rounds if math.dist(place, (x, y)) - r <= 2.5}
            assert near <= listed(worlds.cylinder_cells, world, cell, absent=24)
    assert seen > 500  # the positions are where the obstacles are


def test_a_position_that_is_no_number_still_has_a_cell():
    nowhere = torch.tensor([math.nan, math.inf, -math.inf])
    cells = GRID.cell_index(nowhere, nowhere)
    assert ((cells >= 0) & (cells < GRID.cells)).all()


def test_a_world_without_obstacles_and_tables_without_places():
    worlds = built(absent_boxes(2, 0), absent_cylinders(2, 0), 0, 0)
    assert worlds.boxes.x.shape == (2, 1)
    assert worlds.box_cells.shape == (2, 144, 0)


def test_more_obstacles_than_places_is_an_error_that_names_the_option():
    boxes = Boxes(*(field[:1] for field in some_boxes(turned=False)))
    polygons = [corners(*row[:6]) for _, row in box_rows(boxes, 0)]
    most = max(
        sum(polygon_gap(square(cell), polygon) <= 2.5 for polygon in polygons)
        for cell in range(GRID.cells)
    )
    none = absent_cylinders(1, 0)
    assert built(boxes, none, most, 0).box_cells.shape[-1] == most
    with pytest.raises(
        ValueError, match=rf"^{most} obstacles .* world\.boxes_per_cell={most - 1} are allowed"
    ):
        built(boxes, none, most - 1, 0)
    with pytest.raises(ValueError, match="cylinders_per_cell=0"):
        built(absent_boxes(3, 0), some_cylinders(), 0, 0)


def test_an_obstacle_beyond_the_grid_or_nowhere_is_an_error():
    for field, value in (("x", 8.5), ("y", -8.5), ("x", math.nan), ("y", math.nan)):
        boxes = some_boxes()
        getattr(boxes, field)[1, 3] = value
        boxes.half_x_m[1, 3] = boxes.half_y_m[1, 3] = 0.6
        with pytest.raises(ValueError, match="half_extent_m"):
            built(boxes, absent_cylinders(3, 0))
    cylinders = some_cylinders()
    cylinders.x[0, 0], cylinders.radius_m[0, 0] = 8.5, 0.6
    with pytest.raises(ValueError, match=r"a cylinder reaches 9\.1 m"):
        built(absent_boxes(3, 0), cylinders)


def test_the_table_of_a_world_does_not_depend_on_the_others(monkeypatch):
    boxes = some_boxes()
    together = build_cells(GRID, boxes, limit=24, option="boxes_per_cell")
    monkeypatch.setattr(
        "navrl.envs.navigation.sim.static_obstacles._CHUNK", 1
    )  # one world at a time
    assert torch.equal(together, build_cells(GRID, boxes, limit=24, option="boxes_per_cell"))
    last = Boxes(*(field[2:] for field in boxes))
    assert torch.equal(together[2:], build_cells(GRID, last, limit=24, option="boxes_per_cell"))


def test_what_is_in_sight_at_least_holds_for_obstacles_on_a_lattice():
    """144 posts about a metre apart see no cell more than others, and the fullest cell is near the bound."""
    grid, place = Grid(half_extent_m=9.0, cell_m=0.5, reach_m=2.5), torch.linspace(-6.0, 6.0, 12)
    x, y = (axis.flatten()[None] for axis in torch.meshgrid(place, place, indexing="ij"))
    posts = Cylinders(x, y, *(torch.zeros_like(x) for _ in range(3)))
    table = build_cells(grid, posts, limit=64, option="cylinders_per_cell")
    fullest = int((table < 144).sum(-1).max())
    # Discs of pi * 5^2 cells, shared by the cells of 17 m by 17 m and a row of them on either side
    bound = math.ceil(144 * math.pi * 25 / 36**2)
    assert grid.least_in_sight(144, 6.0) == bound
    assert bound <= fullest <= 4 * bound
    far = Grid(half_extent_m=9.0, cell_m=0.5, reach_m=20.0)  # whose discs are cut down to the grid
    assert far.least_in_sight(144, 6.0) == math.ceil(144 * math.pi * 36 / 38**2)
    assert far.least_in_sight(144, 9.0) == far.least_in_sight(144, math.inf) == 0


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ((0.0, 1.0, 4.0), "world.half_extent_m"),
        ((9.0, -1.0, 4.0), "world.cell_m"),
        ((9.0, 1.0, math.inf), "env.sim.lidar.range_m"),
        ((9.0, 0.0089, 4.0), "world.cell_m"),  # 2,023 cells in a row
    ],
)
def test_a_grid_without_cells_or_with_millions_is_an_error(sizes, name):
    half_extent_m, cell_m, reach_m = sizes
    with pytest.raises(ValueError, match=f"change {name}"):
        Grid(half_extent_m=half_extent_m, cell_m=cell_m, reach_m=reach_m)
