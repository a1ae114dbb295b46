"""A user's world with routes and tables, as an env would make it."""

import numpy as np
import pytest
import torch

from navrl.envs.navigation.maps.user_map import Scale, UserMap
from navrl.envs.navigation.sim.static_obstacles import Grid, build_worlds
from navrl.envs.navigation.worlds.routes import FreeRoutes
from tests.envs.navigation.sim.shapes import clearance
from tests.envs.navigation.worlds.maps import keys

GRID = Grid(half_extent_m=8.0, cell_m=1.0, reach_m=3.0)


def user_map(path, **changes):
    scale = {
        "resolution_m": 0.5,
        "height_step_m": 0.25,
        "height_scale_m": 1.0,
        "origin_m": (-6.0, -6.0, 0.0),
        "ground_m": 0.1,
    } | changes
    return UserMap(path=str(path), scale=Scale(**scale), max_boxes=500)


@pytest.fixture
def path(tmp_path):
    """A room of 12 x 12 m: walls 3 m high around it, a low table, and pillars."""
    heights = np.zeros((24, 24))
    heights[0] = heights[-1] = 3.0
    heights[:, 0] = heights[:, -1] = 3.0
    heights[10:14, 10:14] = 0.5
    heights[5::6, 5::6] = 2.5
    np.save(tmp_path / "room.npy", heights)
    return tmp_path / "room.npy"


def test_the_world_of_the_file_is_the_same_for_every_key_and_count(path):
    obstacles = user_map(path).checked().make(keys(range(3)), torch.tensor([0, 5, 900]))
    boxes = obstacles.boxes
    assert boxes.x.shape[0] == 3
    assert boxes.x.shape[1] > 4
    for field in boxes:
        assert torch.equal(field[0], field[1])
        assert torch.equal(field[0], field[2])
    assert obstacles.cylinders.x.shape == (3, 0)


def test_tables_and_free_routes_are_made_from_it(path):
    obstacles = user_map(path).make(keys(range(2)), torch.zeros(2, dtype=torch.int64))
    worlds = build_worlds(GRID, *obstacles, boxes_per_cell=16, cylinders_per_cell=0)
    absent = obstacles.boxes.x.shape[1]
    assert worlds.box_cells.shape == (2, 256, 16)
    assert (worlds.box_cells < absent).any()
    maker = FreeRoutes(
        x_m=(-6.0, 6.0),
        y_m=(-6.0, 6.0),
        z_m=(0.8, 2.0),
        distance_m=(4.0, 9.0),
        clearance_m=0.6,
        attempts=2_000,
    ).checked()
    routes = maker.make(keys(range(2)), obstacles, 40)
    assert not torch.equal(routes.start[:, 0], routes.start[:, 1])
    for points in routes:
        for world in range(2):
            for point in points[:, world].T.double().tolist():
                assert clearance(*obstacles, world, point) >= 0.6 - 1e-5


def test_a_map_that_does_not_fit_says_which_option_to_raise(path):
    key, none = keys([0]), torch.zeros(1, dtype=torch.int64)
    obstacles = user_map(path).make(key, none)
    with pytest.raises(ValueError, match=r"raise world\.boxes_per_cell"):
        build_worlds(GRID, *obstacles, boxes_per_cell=2, cylinders_per_cell=0)
    far = user_map(path, origin_m=(0.0, 0.0, 0.0)).make(key, none)
    with pytest.raises(ValueError, match=r"raise world\.half_extent_m"):
        build_worlds(GRID, *far, boxes_per_cell=16, cylinders_per_cell=0)


def test_a_wrong_file_is_noticed_before_anything_is_made(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        user_map(tmp_path / "none.npy").checked()
