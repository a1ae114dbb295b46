"""Where moving obstacles begin: spread over the box, of all kinds alike, and clear of the drone."""

import math

import pytest
import torch

from navrl.envs.navigation.sim.moving_obstacles import MODES, initial_obstacles, is_column, radius_m
from tests.envs.navigation.sim.obstacles import begun, keys, moving_params, vectors

MIXED = dict.fromkeys(MODES, 1.0)


@pytest.mark.parametrize(("active", "apart_m"), [(80, 3.0), (40, 4.0), (20, 5.5)])
def test_homes_are_spaced_however_many_there_are(active, apart_m):
    # 80 points at random would have a nearest neighbour within 0.3 m; a square lattice of 80 spaces 4.47 m.
    home = vectors(begun(moving_params(), 50, active=active).home)[:2]
    for env in range(50):
        there = home[:, home[0, :, env] < 1e5, env].t()
        assert there.shape[0] == active
        distance = torch.cdist(there, there).fill_diagonal_(math.inf)
        assert distance.min() > apart_m


def test_each_home_is_uniform_over_the_episodes():
    home = begun(moving_params(), 4096).home
    for field, low, high in ((home.x, -20.0, 20.0), (home.y, -20.0, 20.0), (home.z[:40], 0.0, 4.5)):
        for index in (0, 17, 39):
            counts = torch.histc(field[index], bins=16, min=low, max=high)
            assert counts.sum() == 4096
            # 256 in each; five deviations of a binomial number are 5 sqrt(256 * 15/16)
            assert (counts - 256.0).abs().max() < 5 * math.sqrt(240.0)


@pytest.mark.parametrize("active", [8, 24, 80])
def test_the_first_few_are_a_fair_choice_of_kinds_and_modes(active):
    params = moving_params(modes=MIXED)
    there = begun(params, 1, active=active).position.x[:, 0] < 1e5
    index = torch.arange(80)
    for column in (False, True):
        for width in (0.25, 0.5, 0.75, 1.0):
            kind = (is_column(params, index) == column) & (radius_m(params, index) == width / 2)
            assert int((kind & there).sum()) == active // 8


def test_kinds_are_those_of_the_original_in_its_order():
    params, index = moving_params(), torch.arange(80)
    assert (2.0 * radius_m(params, index)).tolist() == [0.25 * (n // 10 % 4 + 1) for n in range(80)]
    assert is_column(params, index).tolist() == [n >= 40 for n in range(80)]


def test_nobody_begins_near_the_drone_or_outside_of_the_box():
    # Every start that matters: anywhere in the box, on its faces, in its corners, a little outside.
    generator = torch.Generator().manual_seed(0)
    start = torch.rand(3, 4096, generator=generator) * 40.0 - 20.0
    start[:2, :1024] = start[:2, :1024].sign() * (20.0 - torch.rand(2, 1024, generator=generator))
    start[0, 1024:1536], start[1, 1536:2048] = 20.0, -20.7
    params = moving_params()
    place = initial_obstacles(params, keys(4096), start, torch.tensor(80)).position
    gap = torch.hypot(place.x - start[0], place.y - start[1])
    assert gap.min() > 1.5 - 1e-5
    assert max(place.x.abs().max(), place.y.abs().max()) <= 20.0
    home = begun(params, 4096).position
    moved = (place.x != home.x) | (place.y != home.y)
    was_near = torch.hypot(home.x - start[0], home.y - start[1]) < 1.5
    assert torch.equal(moved, was_near)
    assert was_near.any()


def test_a_drone_on_top_of_a_home_pushes_it_away_too():
    params = moving_params()
    start = torch.stack([field[33] for field in begun(params, 8).home])
    place = initial_obstacles(params, keys(8), start, torch.tensor(80)).position
    gap = torch.hypot(place.x[33] - start[0], place.y[33] - start[1])
    assert gap.tolist() == pytest.approx([1.5] * 8, abs=1e-5)


def test_columns_stand_upright_and_blocks_fly_in_the_box():
    place = begun(moving_params(), 64).position
    assert (place.z[40:] == 2.5).all()
    assert place.z[:40].min() >= 0.0
    assert place.z[:40].max() <= 4.5
