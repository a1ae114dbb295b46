"""Radio: every channel against a scalar reference, and associations that nobody would rather leave."""

import math

import pytest
import torch

from navrl.envs.coverage.sim.advance import links_sinr
from navrl.envs.coverage.sim.radio import (
    associate,
    path_loss_db,
)
from tests.envs.coverage.sim.layouts import params_of, rows
from tests.envs.coverage.sim.scalar_radio import greedy, loss_db, sinr_rows

CHANNELS = ("free_space", "urban", "suburban", "3gpp")


def random_places(seed, drones=5, users=50):
    generator = torch.Generator().manual_seed(seed)
    low, high = torch.tensor([0.0, 0.0, 50.0]), torch.tensor([1000.0, 1000.0, 150.0])
    above = low + torch.rand(drones, 3, generator=generator) * (high - low)
    return above.tolist(), (torch.rand(users, 2, generator=generator) * 1000.0).tolist()


@pytest.mark.parametrize("channel", CHANNELS)
def test_sinr_equals_a_scalar_reference(channel):
    params = params_of("coverage", f"env.sim.radio.channel={channel}")
    for seed in range(3):
        drones, users = random_places(seed)
        links = links_sinr(params, rows(drones), rows(users), torch.zeros(0)).squeeze(-1)
        found = 10.0 * links.log10()
        expected = torch.tensor(sinr_rows(channel, drones, users), dtype=torch.float64)
        torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=0.0)


@pytest.mark.parametrize("channel", CHANNELS)
def test_overhead_and_far_away_are_finite(channel):
    radio = params_of("coverage", f"env.sim.radio.channel={channel}").radio
    level = torch.tensor([0.0, 1.0, 1e5])
    height = torch.full_like(level, 50.0)
    length = (level.square() + height.square()).sqrt()
    found = path_loss_db(radio, length, level, height, torch.zeros(0))
    expected = [loss_db(channel, (0.0, 0.0, 50.0), (x, 0.0)) for x in (0.0, 1.0, 1e5)]
    assert found.tolist() == pytest.approx(expected, rel=1e-5)
    assert path_loss_db(radio, level * 0, level * 0, level * 0, torch.zeros(0)).isfinite().all()


def test_shadows_count_by_how_likely_there_is_sight():
    radio = params_of(
        "coverage", "env.sim.radio.channel=3gpp", "env.sim.radio.shadowing=per_episode"
    ).radio
    near, far = torch.tensor([1.0, 5000.0]), torch.tensor([100.0, 100.0])
    length = (near.square() + far.square()).sqrt()
    plain = path_loss_db(radio, length, near, far, torch.zeros(2, 2))
    shadowed = path_loss_db(radio, length, near, far, torch.tensor([[1.0, 1.0], [2.0, 2.0]]))
    angle = [math.degrees(math.atan2(100.0, x)) for x in (1.0, 5000.0)]
    sight = [1.0 / (1.0 + 5.0 * math.exp(-0.6 * (x - 5.0))) for x in angle]
    expected = [4.0 * p + 16.0 * (1.0 - p) for p in sight]
    assert (shadowed - plain).tolist() == pytest.approx(expected, abs=1e-3)


def levels(seed, drones=4, users=12, envs=200):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(drones, users, envs, generator=generator) * 6.0 - 2.0


@pytest.mark.parametrize(("threshold", "most"), [(-5.0, 2), (-20.0, 1), (-1.0, 3), (-200.0, 3)])
def test_associations_are_the_greedy_ones_and_stable(threshold, most):
    sinr = levels(int(most))
    server, level = associate(10.0 ** (sinr / 10.0), min_sinr_db=threshold, max_users=most)
    level = 10.0 * level.log10()
    for env in range(sinr.shape[-1]):
        table = sinr[:, :, env].tolist()
        mine = server[:, env].tolist()
        assert mine == greedy(table, threshold, most)
        for user, drone in enumerate(mine):
            expected = table[drone][user] if drone >= 0 else -math.inf
            assert level[user, env].item() == pytest.approx(expected, abs=1e-4)


def test_equal_users_are_taken_in_their_order():
    server, _ = associate(torch.full((1, 5, 1), 3.0), min_sinr_db=0.0, max_users=2)
    assert server[:, 0].tolist() == [0, 0, -1, -1, -1]
