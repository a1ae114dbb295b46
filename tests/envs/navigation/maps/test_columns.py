"""Voxels and the boxes that fill the same space."""

import numpy as np
import pytest

from navrl.envs.navigation.maps.user_map import Columns, from_voxels, merge


def filled(blocks, size):
    """How many boxes cover each voxel, counted one by one."""
    space = np.zeros(size, dtype=int)
    for row_low, row_high, column_low, column_high, bottom, top in zip(*blocks, strict=True):
        space[row_low:row_high, column_low:column_high, bottom:top] += 1
    return space


def merged(space):
    return merge(from_voxels(*np.nonzero(space)))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_boxes_fill_exactly_the_voxels_once(share):
    space = np.random.default_rng(1).random((9, 14, 6)) < share
    blocks = merged(space)
    assert np.array_equal(filled(blocks, space.shape), space.astype(int))
    assert len(blocks.top) <= space.sum()


def test_what_is_above_a_gap_floats():
    space = np.zeros((1, 1, 9), dtype=bool)
    space[0, 0, [0, 1, 4, 5, 6]] = True
    columns = from_voxels(*np.nonzero(space))
    assert sorted(zip(columns.bottom, columns.top, strict=True)) == [(0, 2), (4, 7)]


def test_a_voxel_named_twice_counts_once():
    row = np.array([2, 2, 2])
    columns = from_voxels(row, row, np.array([5, 4, 5]))
    assert [field.tolist() for field in columns] == [[2], [2], [4], [6]]


def test_a_whole_slab_is_one_box_and_an_angle_is_two():
    space = np.ones((5, 7, 3), dtype=bool)
    assert len(merged(space).top) == 1
    space[:3, :4] = False
    assert len(merged(space).top) == 2


@pytest.mark.parametrize("along_x", [True, False])
def test_strips_go_the_way_that_needs_fewer_boxes(along_x):
    """Three parallel walls with teeth at their ends are fewer when the strips follow the walls."""
    space = np.zeros((7, 12, 1), dtype=bool)
    space[0:2, :8] = space[2:4, :9] = space[4:6, :7] = True
    space = space if along_x else space.transpose(1, 0, 2)
    blocks = merged(space)
    assert len(blocks.top) == 3
    assert np.array_equal(filled(blocks, space.shape), space.astype(int))


def test_neighbours_of_another_height_stay_apart():
    zero = np.zeros(2, dtype=np.int64)
    columns = Columns(zero, np.array([0, 1]), zero, np.array([3, 4]))
    assert len(merge(columns).top) == 2
    assert len(merge(columns._replace(top=np.array([3, 3]))).top) == 1


def test_negative_indices_are_places_too():
    columns = from_voxels(np.array([-2, -1]), np.array([-7, -7]), np.array([0, 0]))
    blocks = merge(columns)
    assert [field.tolist() for field in blocks] == [[-2], [0], [-7], [-6], [0], [1]]
