"""The nearest moving obstacles: their order, their observed states, and collisions with them."""

import math

import pytest
import torch

from navrl.envs.navigation.sim.moving_obstacles import Triple
from navrl.envs.navigation.sim.nearest_obstacles import nearest, touches_in_flight
from tests.envs.navigation.sim.moving_examples import begun, moving_params, placed, vectors

# Indices of 80: a block 1 m wide, a block 0.25 m wide, a column 0.5 m wide.
BLOCK, SMALL_BLOCK, COLUMN = 35, 5, 55


def seen(rows, position=(0.0, 0.0, 1.0), *, velocity=None, count=5, range_m=4.0):
    """Return the nearest obstacles of a drone in one env."""
    place = torch.tensor(position).reshape(3, 1)
    obstacles = placed(rows, velocity=velocity)
    return nearest(moving_params(), obstacles, place, count=count, range_m=range_m)


def test_they_are_those_of_a_slow_search_in_their_order():
    params, envs = moving_params(), 64
    obstacles = begun(params, envs)
    generator = torch.Generator().manual_seed(0)
    position = torch.rand(3, envs, generator=generator) * 30.0 - 15.0
    near = nearest(params, obstacles, position, count=5, range_m=5.0)
    place, velocity = vectors(obstacles.position), vectors(obstacles.velocity)
    complete = 0
    for env in range(envs):
        x, y, z = position[:, env].double().tolist()
        found = sorted(
            (math.hypot(place[0, obstacle, env] - x, place[1, obstacle, env] - y), obstacle)
            for obstacle in range(80)
        )
        found = [obstacle for distance, obstacle in found[:5] if distance <= 5.0]
        complete += len(found) == 5
        assert near.present[:, env].tolist() == [row < len(found) for row in range(5)]
        for row, obstacle in enumerate(found):
            offset = place[:, obstacle, env] - torch.tensor([x, y, z])
            if obstacle >= 40:
                offset[2] = 0.0
            assert near.offset[:, row, env].tolist() == pytest.approx(offset.tolist(), abs=1e-5)
            assert near.velocity[:, row, env].tolist() == velocity[:, obstacle, env].tolist()
            assert near.radius_m[row, env] == 0.125 * (obstacle // 10 % 4 + 1)
            assert near.half_height_m[row, env] == (2.5 if obstacle >= 40 else 0.5)
            assert bool(near.upright[row, env]) == (obstacle >= 40)
    assert 0 < complete < envs  # some see five, some fewer


def test_obstacles_beyond_the_range_are_absent_and_zero():
    rows = {BLOCK: (3.9, 0.0, 1.0), COLUMN: (0.0, 4.1, 2.5)}
    near = seen(rows, velocity=dict.fromkeys(rows, (1.0, 1.0, 0.0)))
    assert near.present[:, 0].tolist() == [True, False, False, False, False]
    for field in (near.offset, near.velocity, near.radius_m, near.half_height_m):
        assert (field[..., 1:, 0] == 0.0).all()
    assert not near.upright[1:].any()
    assert near.gap_m()[1:].min() == 1e6
    assert near.centre_gap_m()[1:].min() == 1e6


@pytest.mark.parametrize(
    ("obstacle", "place", "gap_m", "centre_gap_m"),
    [
        # a block 1 m wide and high; the drone is at a height of 1
        (BLOCK, (2.0, 0.0, 1.0), 1.5, 1.5),
        (BLOCK, (0.0, 0.0, 3.0), 1.5, 1.5),  # right above: from the middle less the radius
        (BLOCK, (3.5, 0.0, 5.5), 5.0, math.hypot(3.5, 4.5) - 0.5),  # 3 sideways and 4 above
        (BLOCK, (0.2, 0.1, 1.3), 0.0, math.sqrt(0.04 + 0.01 + 0.09) - 0.5),  # inside
        # a column 0.5 m wide is level with everybody
        (COLUMN, (2.0, 0.0, 2.5), 1.75, 1.75),
    ],
)
def test_distances_by_hand(obstacle, place, gap_m, centre_gap_m):
    near = seen({obstacle: place})
    assert float(near.gap_m()[0, 0]) == pytest.approx(gap_m, abs=1e-5)
    assert float(near.centre_gap_m()[0, 0]) == pytest.approx(centre_gap_m, abs=1e-5)


@pytest.mark.parametrize(
    ("obstacle", "place", "hit"),
    [
        # within width / 2 + 0.3 sideways and height / 2 + 0.3 above
        (BLOCK, (0.79, 0.0, 1.0), True),
        (BLOCK, (0.81, 0.0, 1.0), False),
        (BLOCK, (0.57, 0.57, 1.0), False),  # 0.806 m away: a block counts as a disc
        (BLOCK, (0.0, 0.0, 1.79), True),
        (BLOCK, (0.0, 0.0, 1.81), False),
        (BLOCK, (0.7, 0.0, 0.21), True),
        (SMALL_BLOCK, (0.42, 0.0, 1.0), True),
        (SMALL_BLOCK, (0.43, 0.0, 1.0), False),
        (COLUMN, (0.0, 0.54, 2.5), True),
        (COLUMN, (0.0, 0.56, 2.5), False),
    ],
)
def test_what_is_hit_by_hand(obstacle, place, hit):
    assert seen({obstacle: place}).touches(0.3).tolist() == [hit]


def test_the_farther_of_two_can_be_the_one_that_is_hit():
    # The middle of a thin block high above is nearer than that of a wide one beside the drone.
    rows = {SMALL_BLOCK: (0.1, 0.0, 4.0), BLOCK: (0.7, 0.0, 1.0)}
    assert seen(rows).touches(0.3).tolist() == [True]
    assert seen({SMALL_BLOCK: rows[SMALL_BLOCK]}).touches(0.3).tolist() == [False]


def test_a_flight_touches_what_one_of_two_thousand_points_on_it_touches():
    """Drones fly up to 1.7 m and obstacles 0.15 m, as in 0.05 s at 20 and at 3 m/s."""
    params, envs = moving_params(), 400
    draw = torch.Generator().manual_seed(1)

    def around(reach_m, *size):
        return (2.0 * torch.rand(*size, envs, generator=draw) - 1.0) * reach_m

    rows = dict.fromkeys((SMALL_BLOCK, BLOCK, COLUMN), (0.0, 0.0, 1.0))
    one = placed(rows)
    places = torch.stack(one.position).expand(3, 80, envs)
    ends = [place + around(0.1, 3, 80) for place in (places, places)]
    ends[1][2, :, :100] = ends[0][2, :, :100]  # level
    own = [torch.tensor([[0.0], [0.0], [1.0]]) + around(0.9, 3) for _ in range(2)]
    before, after = (
        (one._replace(position=Triple(*place)), drone)
        for place, drone in zip(ends, own, strict=True)
    )
    found = touches_in_flight(params, before, after, 0.3)
    chosen = [SMALL_BLOCK, BLOCK, COLUMN]
    radius, half_height = torch.tensor([0.125, 0.5, 0.25]), torch.tensor([0.5, 0.5, 1e6])
    least = torch.full((envs,), math.inf)  # of what is missing to a contact
    at_end = least
    for part in torch.linspace(0.0, 1.0, 2_000).tolist():
        place = (ends[0] + part * (ends[1] - ends[0]))[:, chosen]
        x, y, z = (place - (own[0] + part * (own[1] - own[0])).unsqueeze(1)).unbind(0)
        beside = (x * x + y * y).sqrt() - radius.unsqueeze(1) - 0.3
        missing = torch.maximum(beside, z.abs() - half_height.unsqueeze(1) - 0.3)
        at_end = missing.amin(0)
        least = torch.minimum(least, at_end)
    clear = least.abs() > 2e-3  # nearer, the two thousand points decide
    assert torch.equal(found[clear], (least < 0.0)[clear])
    assert ((least < -2e-3) & (at_end > 0.0)).sum() > 40
    assert (found == (least < 0.0)).float().mean() > 0.98


def test_a_flight_that_ends_where_it_began_touches_what_is_there():
    for place, hit in (((0.79, 0.0, 1.0), True), ((0.0, 0.0, 1.81), False)):
        still = (placed({BLOCK: place}), torch.tensor([[0.0], [0.0], [1.0]]))
        assert touches_in_flight(moving_params(), still, still, 0.3).tolist() == [hit]
