"""Map files as boxes: sizes by hand, every format the same, and hostile files refused in one sentence."""

import contextlib
import dataclasses

import numpy as np
import pytest
import torch

from navrl.envs.navigation.maps.user_map import (
    Scale,
    UserMap,
    from_voxels,
    merge,
    read_map,
)
from navrl.envs.navigation.sim.static_obstacles import Grid, build_worlds
from tests.envs.navigation.maps.map_files import pcd, png
from tests.envs.playing import keys

SCALE = Scale(
    resolution_m=0.5,
    height_step_m=0.25,
    height_scale_m=0.01,
    origin_m=(-2.0, -1.0, 0.0),
    ground_m=0.1,
)


def read(path, max_boxes=1000, **changes):
    return read_map(path, scale=dataclasses.replace(SCALE, **changes), max_boxes=max_boxes)


def rows(boxes):
    """Every box as (west, east, south, north, bottom, top), sorted."""
    assert (boxes.cos_yaw == 1.0).all()
    assert (boxes.sin_yaw == 0.0).all()
    assert all(field.dtype == torch.float32 and field.shape[0] == 1 for field in boxes)
    edges = [
        boxes.x - boxes.half_x_m,
        boxes.x + boxes.half_x_m,
        boxes.y - boxes.half_y_m,
        boxes.y + boxes.half_y_m,
        boxes.bottom_m,
        boxes.top_m,
    ]
    return sorted(torch.stack([edge[0] for edge in edges], dim=1).tolist())


def saved(path, array):
    np.save(path, array)
    return path


def written(path, data):
    path.write_bytes(data)
    return path


HEIGHTS_CM = np.array([[0, 100, 100, 0], [0, 100, 100, 310], [5, 0, 0, 310]])
# Columns of 0.5 m from x = -2, rows from y = -1; 3.1 m are rounded up to 3.25 m.
HEIGHT_BOXES = [[-1.5, -0.5, -1.0, 0.0, 0.0, 1.0], [-0.5, 0.0, -0.5, 0.5, 0.0, 3.25]]


def test_a_height_map_becomes_boxes_on_the_ground(tmp_path):
    assert rows(read(saved(tmp_path / "a.npy", HEIGHTS_CM))) == HEIGHT_BOXES
    assert rows(read(saved(tmp_path / "b.npy", HEIGHTS_CM.astype(np.float32)))) == HEIGHT_BOXES
    fortran = np.asfortranarray(HEIGHTS_CM.astype(np.uint16))
    assert rows(read(saved(tmp_path / "c.NPY.npy", fortran))) == HEIGHT_BOXES


@pytest.mark.parametrize("bits", [8, 16])
def test_an_image_has_its_last_row_in_the_south(tmp_path, bits):
    heights = HEIGHTS_CM.copy()
    heights[heights == 310] = 310 if bits == 16 else 250
    image = written(tmp_path / "map.PNG", png(heights[::-1], bits=bits))
    top_m = 3.25 if bits == 16 else 2.5
    assert rows(read(image)) == [HEIGHT_BOXES[0], [*HEIGHT_BOXES[1][:5], top_m]]


def test_an_image_three_pixels_wide_is_not_taken_for_points(tmp_path):
    image = written(tmp_path / "map.png", png(np.full((2, 3), 200)))
    assert rows(read(image)) == [[-2.0, -0.5, -1.0, 0.0, 0.0, 2.0]]


def test_height_and_place_of_the_origin_are_added(tmp_path):
    path = saved(tmp_path / "a.npy", np.array([[100, 0]]))
    assert rows(read(path, origin_m=(5.0, 6.0, 0.5))) == [
        # Even where the file holds 0 it is half a metre above the ground now.
        [5.0, 5.5, 6.0, 6.5, 0.0, 1.5],
        [5.5, 6.0, 6.0, 6.5, 0.0, 0.5],
    ]


POINTS = np.array(
    [
        [0.1, 0.2, 0.2],  # the voxel that stands on the ground
        [0.2, 0.3, 0.4],  # above it
        [0.7, 0.2, 0.49],  # its neighbour to the east, in two points
        [0.6, 0.1, 0.15],
        [0.1, 0.1, 1.6],  # floats above them
        [3.9, 3.9, 0.05],  # ground
        [3.9, 3.9, -4.0],
    ]
)
POINT_BOXES = [[-2.0, -1.5, -1.0, -0.5, 1.5, 1.75], [-2.0, -1.0, -1.0, -0.5, 0.0, 0.5]]


def test_points_become_boxes_and_what_floats_stays_up(tmp_path):
    assert rows(read(saved(tmp_path / "a.npy", POINTS))) == POINT_BOXES
    assert rows(read(saved(tmp_path / "b.npy", POINTS.astype(np.float32)))) == POINT_BOXES


def test_what_begins_right_above_the_ground_stands_on_it(tmp_path):
    path = saved(tmp_path / "a.npy", np.array([[-2.6, -0.1, 0.4], [0.1, 0.1, 0.6]]))
    assert rows(read(path, ground_m=0.3, origin_m=(0.0, 0.0, 0.0))) == [
        [-3.0, -2.5, -0.5, 0.0, 0.0, 0.5],
        [0.0, 0.5, 0.0, 0.5, 0.5, 0.75],
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"encoding": "ascii"},
        {"encoding": "binary"},
        {"encoding": "binary", "sizes": ["8", "8", "8"]},
        {"encoding": "ascii", "COUNT": None, "POINTS": None},
        {"encoding": "binary", "COUNT": None},
        {"encoding": "ascii", "WIDTH": "1", "HEIGHT": "7"},
    ],
)
def test_point_clouds_of_every_kind_are_the_same(tmp_path, options):
    assert rows(read(written(tmp_path / "map.pcd", pcd(POINTS, **options)))) == POINT_BOXES


def refused(path, **changes):
    """The one sentence with which the file is refused."""
    with pytest.raises(ValueError, match=r"^the map .*\S$") as caught:
        read(path, **changes)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)
    return str(caught.value)


def test_a_file_that_is_not_there_or_not_a_file(tmp_path):
    for suffix in ("npy", "pcd", "png"):
        assert "No such file" in refused(tmp_path / f"missing.{suffix}")
        (tmp_path / f"folder.{suffix}").mkdir()
        assert "directory" in refused(tmp_path / f"folder.{suffix}")
    assert "ends in '.ply'; expected .npy, .pcd or .png" in refused(tmp_path / "map.ply")
    assert "ends in ''" in refused(tmp_path / "map")


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros((0, 3)), "empty"),
        (np.zeros((4, 0)), "empty"),
        (np.zeros(5), r"its shape is (5,)"),
        (np.zeros((2, 3, 4)), r"its shape is (2, 3, 4)"),
        (np.array(["a", "b"]), "no real numbers"),
        (np.ones((2, 2), dtype=complex), "no real numbers"),
        (np.zeros(3, dtype=[("x", float)]), "no real numbers"),
        (np.array([[1.0, 2.0, np.nan], [1.0, 2.0, 3.0]]), "1 of its 2 rows hold NaN"),
        (np.array([[1.0, np.inf]]), "NaN or infinity"),
        (np.array([[1.0, 2.0, 1e9]]), "reaches 1e+09 m"),
        (np.array([[1e308, 1.0]]), "reaches 1e+306 m"),
        (np.array([[1.0, 2.0, 0.05]]), "raise world.map.scale.origin_m"),
        (np.full((2, 2), 4.0), "0.04 m: lower it, or raise world.map.scale.height_scale_m"),
        (np.array([[10, 9], [5, 0]]), "its highest is 0.1 m"),
        (np.array([[-500, -9]]), "nothing in it is higher"),
    ],
)
def test_arrays_that_are_no_map(tmp_path, array, sentence):
    assert sentence in refused(saved(tmp_path / "map.npy", array))


def test_points_without_a_number_and_clouds_without_points(tmp_path):
    cloud = pcd(POINTS).replace(b"0.3", b"nan")
    assert "1 of its 7 rows hold NaN" in refused(written(tmp_path / "map.pcd", cloud))
    assert "empty" in refused(written(tmp_path / "map.pcd", pcd(POINTS[:0])))


def test_arrays_of_python_objects_are_not_loaded(tmp_path):
    path = tmp_path / "map.npy"
    np.save(path, np.array([[1, "two"], [None, 3]], dtype=object), allow_pickle=True)
    assert "no complete .npy array" in refused(path)


def test_an_array_that_promises_more_than_it_holds(tmp_path):
    path = saved(tmp_path / "map.npy", np.ones((4, 4)))
    data = path.read_bytes()
    huge = data.replace(b"(4, 4)", b"(999999999999, 4)").replace(b" " * 11 + b"\n", b"\n")
    assert len(huge) == len(data)
    assert "no complete .npy array" in refused(written(path, huge))


def test_too_many_boxes(tmp_path):
    path = saved(tmp_path / "map.npy", np.diag([100] * 30))
    assert "makes 30 boxes, and max_boxes=29 are allowed" in refused(path, max_boxes=29)
    assert len(rows(read(path, max_boxes=30))) == 30


@pytest.mark.parametrize(
    "changes",
    [
        *({"resolution_m": 0.0}, {"height_step_m": np.nan}, {"height_scale_m": np.inf}),
        *({"resolution_m": 1e-4}, {"height_step_m": 2e5}, {"origin_m": None}),
        *({"ground_m": -1.0}, {"origin_m": (0.0, 0.0)}, {"origin_m": (0.0, 0.0, np.nan)}),
    ],
)
def test_impossible_scales_are_named(tmp_path, changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        read(tmp_path / "map.npy", **changes)


def whole_files(tmp_path):
    return {
        "npy": saved(tmp_path / "whole.npy", HEIGHTS_CM).read_bytes(),
        "png": png(HEIGHTS_CM % 256),
        "pcd": pcd(POINTS, encoding="binary"),
    }


@pytest.mark.parametrize("suffix", ["npy", "png", "pcd"])
def test_every_file_that_is_cut_off_is_refused(tmp_path, suffix):
    data = whole_files(tmp_path)[suffix]
    for length in range(len(data)):
        refused(written(tmp_path / f"map.{suffix}", data[:length]))


@pytest.mark.parametrize("suffix", ["npy", "png", "pcd"])
@pytest.mark.filterwarnings("ignore::UserWarning")  # numpy's, about headers of an older Python
def test_a_file_with_a_wrong_byte_is_read_or_refused_but_never_fails_otherwise(tmp_path, suffix):
    data = whole_files(tmp_path)[suffix]
    generator = np.random.default_rng(5)
    for place in range(len(data)):
        broken = bytearray(data)
        broken[place] ^= int(generator.integers(1, 256))
        path = written(tmp_path / f"map.{suffix}", bytes(broken))
        # Anything but the refusal of read_map is a failure of this test.
        with contextlib.suppress(ValueError):
            assert all(field.isfinite().all() for field in read(path))


def filled(blocks, size):
    """Return the number of boxes over each voxel, counted one by one."""
    space = np.zeros(size, dtype=int)
    for row_low, row_high, column_low, column_high, bottom, top in zip(*blocks, strict=True):
        space[row_low:row_high, column_low:column_high, bottom:top] += 1
    return space


@pytest.mark.parametrize("apart", [1, 100_000_000])  # a key of 64 bits, and none that large
def test_columns_far_apart_are_sorted_as_near_ones(apart):
    row, column, level = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [4, 3, 3, 3]]) * [
        [apart],
        [apart],
        [1],
    ]
    columns = from_voxels(row, column, level * apart)
    assert columns.row.tolist() == [0, 0, apart, apart]
    assert columns.column.tolist() == [0, apart, 0, apart]
    assert columns.bottom.tolist() == [3 * apart, 3 * apart, 3 * apart, 4 * apart]


def merged(space):
    return merge(from_voxels(*np.nonzero(space)))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_boxes_fill_exactly_the_voxels_once(share):
    space = np.random.default_rng(1).random((9, 14, 6)) < share
    blocks = merged(space)
    assert np.array_equal(filled(blocks, space.shape), space.astype(int))
    assert len(blocks.top) <= space.sum()


def test_a_voxel_named_twice_counts_once():
    row = np.array([2, 2, 2])
    columns = from_voxels(row, row, np.array([5, 4, 5]))
    assert [field.tolist() for field in columns] == [[2], [2], [4], [6]]


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


def test_a_map_that_does_not_fit_names_the_option_to_raise(path):
    key, none = keys([0]), torch.zeros(1, dtype=torch.int64)
    obstacles = user_map(path).make(key, none)
    with pytest.raises(ValueError, match=r"raise world\.boxes_per_cell"):
        build_worlds(GRID, *obstacles, boxes_per_cell=2, cylinders_per_cell=0)
    far = user_map(path, origin_m=(0.0, 0.0, 0.0)).make(key, none)
    with pytest.raises(ValueError, match=r"raise world\.half_extent_m"):
        build_worlds(GRID, *far, boxes_per_cell=16, cylinders_per_cell=0)
