"""No direction, place or number is special to drones that serve users, but that of the ground station."""

import pytest
import torch

from navrl.envs.coverage.observations import Histogram, Relative
from navrl.envs.coverage.sim.advance import advance
from tests.envs.coverage.sim.layouts import params_of, reward_of, standing, state_at

ENVS, STEPS = 64, 8
ALL = [(swap, *signs) for swap in (False, True) for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
UPRIGHT = [
    (False, 1, 1),
    (False, 1, -1),
]  # those that leave the station of coverage_relay where it is


def drawn(count, generator, low=0.0, high=1000.0):
    """Return places in multiples of 1/8 m, of which sums and differences are exact."""
    draw = torch.rand(count, ENVS, generator=generator)
    return (8.0 * (low + (high - low) * draw)).round() / 8.0


def image(rows, picture, middle=500.0):
    """Return rows (2 or 3, ..., N) turned or reflected around a middle; heights stay."""
    swap, sign_x, sign_y = picture
    x, y = (rows[0] - middle) * sign_x, (rows[1] - middle) * sign_y
    x, y = (y, x) if swap else (x, y)
    return torch.stack([x + middle, y + middle, *rows[2:]])


def opening(params, seed):
    generator = torch.Generator().manual_seed(seed)
    low, high = params.height_m
    drones = [drawn(params.num_drones, generator) for _ in range(2)]
    drones.append(drawn(params.num_drones, generator, low, high))
    users = [drawn(params.num_users, generator) for _ in range(2)]
    return torch.stack(drones), torch.stack(users), generator


@pytest.mark.parametrize(
    ("env", "pictures"), [("coverage", ALL), ("coverage_relay", UPRIGHT), ("coverage_compat", ALL)]
)
def test_images_of_a_flight_serve_alike_to_the_bit(env, pictures):
    """Also at the walls, and through the network where the picture leaves the station in its place."""
    params, reward = params_of(env), reward_of(env)
    drones, users, generator = opening(params, 3)
    states = [state_at(params, image(drones, p), image(users, p)) for p in pictures]
    for _ in range(STEPS):
        action = (32.0 * (2.4 * torch.rand(drones.shape, generator=generator) - 1.2)).round() / 32.0
        first = states[0]
        for picture, state in zip(pictures, states, strict=True):
            assert torch.equal(state.position, image(first.position, picture))
            for mine, other in zip(first.service, state.service, strict=True):
                assert torch.equal(mine, other)
            for mine, other in zip(first.network, state.network, strict=True):
                assert torch.equal(mine, other)
            assert torch.equal(
                reward(standing(params, state))[0], reward(standing(params, first))[0]
            )
        states = [
            advance(params, s, image(action, p, 0.0)) for p, s in zip(pictures, states, strict=True)
        ]
    at_wall = (states[0].position[:2] == 0.0) | (states[0].position[:2] == 1000.0)
    assert at_wall.any()


@pytest.mark.parametrize(
    "kind", [Relative(), Histogram(cells=5, cell_m=200.0)], ids=["sets", "grid"]
)
def test_what_is_observed_around_a_drone_does_not_depend_on_where_all_are(kind):
    params = params_of("coverage")
    drones, users, _ = opening(params, 5)
    kind.prepare(params, "cpu")
    way = torch.tensor([123.125, -77.5, 8.25])
    moved = state_at(params, drones + way.view(3, 1, 1), users + way[:2].view(2, 1, 1))
    found, seen = (kind.rows(params, state) for state in (moved, state_at(params, drones, users)))
    for leaf in set(seen) - {"own"}:
        assert torch.equal(found[leaf], seen[leaf])
    assert not torch.equal(found["own"], seen["own"])


def test_the_sets_around_a_drone_turn_with_the_picture():
    params, kind = params_of("coverage"), Relative()
    drones, users, _ = opening(params, 6)
    kind.prepare(params, "cpu")
    seen = kind.rows(params, state_at(params, drones, users))
    for picture in ALL:
        state = state_at(params, image(drones, picture), image(users, picture))
        found = kind.rows(params, state)
        for leaf in ("users", "mates"):
            expected = image(seen[leaf].movedim(2, 0), picture, 0.0).movedim(0, 2)
            assert torch.equal(found[leaf], expected)


def test_the_numbers_of_drones_and_users_mean_nothing_to_the_traffic():
    """Paths have the same lengths whoever has which number, and carry the same traffic where each is unique.

    Of several shortest paths that of the lowest number is taken, which need not be the widest: without any
    exception this holds of lengths only. A link is 498 m long at most.
    """
    params = params_of("coverage_relay")
    drones, users, generator = opening(params, 7)
    first = state_at(params, drones, users)
    apart = (drones.unsqueeze(1) - drones.unsqueeze(2)).square().sum(0).sqrt()
    hops = first.network.length
    next_hops = ((apart < 500.0) & (hops.unsqueeze(0) == hops.unsqueeze(1) - 1.0)).sum(1)
    unique = (next_hops <= 1).all(0)
    assert unique.float().mean() > 0.3
    assert (hops[:, unique] > 1.0).any()
    order = torch.randperm(params.num_drones, generator=generator)
    other = state_at(params, drones[:, order], users.flip(1))
    assert torch.equal(other.network.length, hops[order])
    for field in ("bottleneck_mbps", "arriving_mbps"):
        found, expected = getattr(other.network, field), getattr(first.network, field)[order]
        torch.testing.assert_close(found[:, unique], expected[:, unique], rtol=1e-5, atol=1e-4)
    arriving = other.network.arriving_mbps
    total, best = arriving.sum(0), first.network.arriving_mbps.sum(0)
    torch.testing.assert_close(total[unique], best[unique], rtol=1e-5, atol=1e-3)
