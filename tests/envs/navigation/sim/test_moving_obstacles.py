"""Moving obstacles: their first places, the modes of motion, and the box that they keep to."""

import math

import pytest
import torch

from navrl.envs.navigation.sim.moving_obstacles import MODES, initial_obstacles, is_column, radius_m
from tests.envs.navigation.sim.moving_examples import (
    DT_S,
    begun,
    flown,
    keys,
    moving_params,
    vectors,
)


def speeds(obstacles):
    return vectors(obstacles.velocity).square().sum(0).sqrt()


@pytest.mark.parametrize("every_s", [None, 2.0])
@pytest.mark.parametrize("mode", MODES)
def test_they_keep_to_the_box_and_to_their_speeds(mode, every_s):
    params = moving_params(mode, re_aim_every_s=every_s)
    for obstacles in flown(params, begun(params, 16), 400, drone=(1.0, -2.0, 2.0)):
        place, speed = vectors(obstacles.position), speeds(obstacles)
        assert place[:2].abs().max() <= 20.0 + 1e-5
        assert place[2, :40].min() >= 0.0
        assert place[2, :40].max() <= 4.5
        assert (place[2, 40:] == 2.5).all()
        rests = (speed == 0.0) & (mode == "stop_and_go")
        assert ((speed > 0.5 - 1e-5) & (speed < 1.5 + 1e-5) | rests).all()
        assert (obstacles.velocity.z[40:] == 0.0).all()


@pytest.mark.parametrize("mode", ["waypoint", "crossing"])
def test_a_goal_is_in_the_territory_and_the_way_leads_straight_to_it(mode):
    params = moving_params(mode)
    before = begun(params, 32)
    arrivals = 0
    for after in flown(params, before, 300, drone=(3.0, 4.0, 1.0)):
        goal, home = vectors(after.goal), vectors(after.home)
        assert ((goal - home)[:2].abs() <= 5.0 + 1e-5).all()
        to_goal, velocity = goal - vectors(after.position), vectors(after.velocity)
        distance = to_goal.square().sum(0).sqrt()
        off = 1.0 - (to_goal * velocity).sum(0) / (distance * speeds(after))
        assert off[distance > 0.5].max() < 1e-4
        renewed = (goal != vectors(before.goal)).any(0)
        left = (vectors(before.goal) - vectors(after.position)).square().sum(0).sqrt()
        assert torch.equal(renewed & (left > 1e-3), (left < 0.5) & renewed & (left > 1e-3))
        corner = (goal[:2].abs() == 20.0).all(0)  # may be drawn again
        met = (vectors(after.goal)[:2] == torch.tensor([3.0, 4.0]).reshape(2, 1, 1)).all(
            0
        )  # it waits
        assert (renewed | corner | met)[left < 0.5 - 1e-5].all()
        arrivals += int(renewed.sum())
        before = after
    # 32 * 80 obstacles, 15 s, legs of about 4 m at 1 m/s
    assert arrivals > 2560


def test_goals_fill_the_territory_evenly():
    params = moving_params(local_range_m=(2.0, 3.0, 1.0))
    obstacles = begun(params, 512)
    home, goal = obstacles.home, obstacles.goal
    inner = (home.x.abs() < 18.0) & (home.y.abs() < 17.0) & (home.z > 1.0) & (home.z < 3.5)
    inner[40:] = False  # columns stay at their height
    for name, reach in (("x", 2.0), ("y", 3.0), ("z", 1.0)):
        offset = (getattr(goal, name) - getattr(home, name))[inner]
        counts = torch.histc(offset, bins=20, min=-reach, max=reach)
        expected = offset.numel() / 20
        assert (counts - expected).abs().max() < 5 * math.sqrt(expected)


def test_bouncing_is_a_mirrored_straight_line():
    params = moving_params("bouncing")
    first = begun(params, 4)
    place, velocity = vectors(first.position), vectors(first.velocity)
    for step, obstacles in enumerate(flown(params, first, 1200), 1):
        if step % 100:
            continue
        # unfolded it is a line; fold it back into a box that repeats every two lengths
        line = place + velocity * (DT_S * step)
        low = torch.tensor([-20.0, -20.0, 0.0]).double().reshape(3, 1, 1)
        length = torch.tensor([40.0, 40.0, 4.5]).double().reshape(3, 1, 1)
        along = (line - low) % (2.0 * length)
        folded = low + torch.minimum(along, 2.0 * length - along)
        folded[2, 40:] = 2.5
        assert (vectors(obstacles.position) - folded).abs().max() < 5e-3


def test_stop_and_go_rests_at_its_goals_for_the_mean_time():
    params = moving_params("stop_and_go", rest_s=1.5)
    standing, ends = 0, 0
    before = begun(params, 64)
    for after in flown(params, before, 600):
        rested, rests = speeds(before) == 0.0, speeds(after) == 0.0
        at_goal = (vectors(after.goal) - vectors(after.position)).square().sum(0) < 0.25 + 1e-5
        assert at_goal[rests].all()
        standing += int(rested.sum())
        ends += int((rested & ~rests).sum())
        before = after
    # each step of a rest ends it with probability dt / rest: `ends` is binomial
    chance = DT_S / 1.5
    assert ends == pytest.approx(standing * chance, abs=5 * math.sqrt(standing * chance))
    assert ends > 5000


def test_crossing_aims_where_the_drone_will_be_when_it_arrives_there():
    params = moving_params("crossing", speed_mps=(1.0, 1.0))
    drone, velocity = (2.0, -3.0, 1.5), (0.8, 0.6, 0.1)
    aimed = 0
    before = begun(params, 64)
    for after in flown(params, before, 200, drone=drone, velocity=velocity):
        renewed = (vectors(after.goal) != vectors(before.goal)).any(0)
        x, y = vectors(after.position)[:2]
        time_s = torch.hypot(x - drone[0], y - drone[1]).clamp_max(3.0)
        predicted = torch.stack([drone[axis] + velocity[axis] * time_s for axis in range(3)])
        predicted[2, 40:] = 2.5
        offset = predicted[:2] - vectors(after.home)[:2]
        edge = (offset.abs().amax(0) - 5.0).abs() < 1e-4
        inside = (offset.abs() < 5.0).all(0)
        hit = (vectors(after.goal) - predicted).abs().amax(0) < 1e-4
        assert torch.equal(hit[renewed & ~edge], inside[renewed & ~edge])
        aimed += int((hit & renewed).sum())
        before = after
    assert aimed > 100


def test_what_obstacles_draw_in_one_step_is_spread_and_says_nothing_of_the_next():
    """They share one draw of the env, shifted; so speeds of one step are even, those of two unrelated."""
    params = moving_params(re_aim_every_s=DT_S)  # everybody draws at every step
    obstacles = begun(params, 256)
    drawn = [speeds(after) for after in flown(params, obstacles, 3)]
    for one in drawn:
        # 80 random numbers leave gaps of 5 % between two somewhere; the spread ones leave less than 3/80.
        gaps = one.sort(0).values.diff(dim=0)
        assert gaps.max() < 3.0 / 80.0 + 1e-5
        counts = torch.histc(one, bins=20, min=0.5, max=1.5)
        assert (counts - 1024.0).abs().max() < 5 * math.sqrt(1024.0)
    for one, other in ((drawn[0], drawn[1]), (drawn[1], drawn[2])):
        # of one obstacle over the envs: the correlation of 256 pairs is 0 +- 1/16
        pairs = torch.stack([one - one.mean(), other - other.mean()])
        correlation = (pairs[0] * pairs[1]).mean(-1) / pairs.square().mean((1, 2)).prod().sqrt()
        assert correlation.abs().max() < 5.0 / 16.0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("every_s", [None, 2.0])
def test_absent_obstacles_stay_absent(mode, every_s):
    params = moving_params(mode, re_aim_every_s=every_s, rest_s=0.01)
    active = torch.tensor([0, 16, 80])
    first = initial_obstacles(params, keys(3), torch.zeros(3, 3), active)
    for obstacles in flown(params, first, 90, drone=(0.0, 0.0, 1.0)):
        there = obstacles.position.x < 1e5
        assert there.sum(0).tolist() == [0, 16, 80]
        assert (speeds(obstacles)[~there] == 0.0).all()


@pytest.mark.parametrize(
    "change",
    [
        *({"count": 12}, {"count": 0}, {"half_extent_m": 0.0}, {"speed_mps": (0.0, 1.0)}),
        *({"speed_mps": (2.0, 1.0)}, {"local_range_m": (1.0, -1.0, 1.0)}, {"re_aim_every_s": 0.0}),
        *({"rest_s": 0.0}, {"look_ahead_s": -1.0}, {"modes": {"waypoint": 1.0}}),
        {"modes": dict.fromkeys(MODES, 0.0)},
    ],
    ids=str,
)
def test_impossible_numbers_are_refused_by_name(change):
    (name,) = change
    with pytest.raises(
        ValueError, match=rf"^env\.sim\.moving\.{name} = .*; expected .*; change env\."
    ):
        moving_params(**change)


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


def test_no_obstacle_begins_near_the_drone_or_outside_of_the_box():
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
