"""Drones as base stations: figures computed elsewhere, symmetries, motion and placements."""

import math

import pytest
import torch

from navrl.envs.core.rewards import Transition
from navrl.envs.coverage.sim.advance import advance, connected, initial_state, links_sinr
from navrl.envs.coverage.sim.users import placed, walked
from tests.envs.coverage.sim.layouts import (
    DRONES,
    SMALL,
    USERS,
    params_of,
    reward_of,
    rows,
    standing,
    state_at,
)
from tests.envs.playing import keys

# By the original's own code, for the layout above.
SINR_DB = {
    "free_space": [[12.6965, -7.8572, -7.7518], [-12.7016, 7.8529, 7.7343]],
    "urban": [[22.9660, -14.7902, -14.8528], [-23.8827, 14.2140, 9.8915]],
    "suburban": [[22.0456, -13.7538, -13.6194], [-22.2285, 13.6379, 12.4027]],
    "3gpp": [[15.6732, -10.8872, -44.7205], [-15.6825, 10.8791, 31.3651]],
}
ALONE = {"free_space": 0.734279, "urban": 0.796905, "suburban": 0.800287, "3gpp": 0.828507}
QUALITY = {"free_space": 0.314264, "urban": 0.523016, "suburban": 0.534290}
RELAYED = {
    "free_space": (0.728994, 0.497372, 198.2969),
    "urban": (0.830176, 0.794531, 316.7707),
    "suburban": (0.835301, 0.808883, 322.4925),
}


def by_hand(env, channel):
    params = params_of(env, *SMALL, f"env.sim.radio.channel={channel}")
    return params, state_at(params, rows(DRONES), rows(USERS))


@pytest.mark.parametrize("channel", SINR_DB)
def test_links_are_those_of_the_original(channel):
    params, _ = by_hand("coverage", channel)
    links = links_sinr(params, rows(DRONES), rows(USERS), torch.zeros(0)).squeeze(-1)
    found = 10.0 * links.log10()
    torch.testing.assert_close(found, torch.tensor(SINR_DB[channel]), atol=1e-4, rtol=0.0)


@pytest.mark.parametrize("channel", ALONE)
def test_serving_is_worth_what_it_is_in_the_original(channel):
    params, state = by_hand("coverage", channel)
    reward, parts = reward_of("coverage")(standing(params, state))
    assert reward.item() == pytest.approx(ALONE[channel], abs=1e-6)
    assert state.service.load[:, 0].tolist() == [1.0, 2.0]
    assert parts[0].item() == pytest.approx(0.7)
    assert parts[2].item() == pytest.approx(-0.06)  # 110 m on average
    if channel in QUALITY:
        assert parts[1].item() / 0.3 == pytest.approx(QUALITY[channel], abs=1e-6)


@pytest.mark.parametrize("channel", RELAYED)
def test_relaying_is_worth_what_it_is_in_the_original(channel):
    params, state = by_hand("coverage_compat", channel)
    reward, parts = reward_of("coverage_compat")(standing(params, state))
    worth, throughput, mbps = RELAYED[channel]
    assert reward.item() == pytest.approx(worth, abs=1e-6)
    assert parts[2].item() == pytest.approx(0.2)
    assert parts[3].item() / 0.2 == pytest.approx(throughput, abs=1e-6)
    assert parts[4].item() == pytest.approx(-0.1 / 3.0, abs=1e-6)
    assert state.network.arriving_mbps.sum().item() == pytest.approx(mbps, abs=1e-3)


@pytest.mark.parametrize("env", ["coverage", "coverage_relay", "coverage_compat"])
def test_shares_add_up_to_the_teams_reward(env):
    params, reward = params_of(env), reward_of(env)
    state = initial_state(params, keys(64))
    team, parts = reward(standing(params, state))
    shares = reward.shares(standing(params, state))
    assert shares.shape == (5, 64)
    torch.testing.assert_close(shares.sum(0), team, atol=1e-6, rtol=0.0)
    torch.testing.assert_close(torch.stack(parts).sum(0), team, atol=1e-6, rtol=0.0)
    assert (shares.std(0) > 1e-3).any()


def test_a_share_by_hand():
    params, state = by_hand("coverage", "free_space")
    shares = reward_of("coverage").shares(standing(params, state))[:, 0].tolist()
    good = [12.6965 / 30.0, (7.8529 + 7.7343) / 30.0]
    expected = [
        0.7 / 3.0 + 0.3 * good[0] / 3.0 - 0.1 * 0.5 / 2.0,
        0.7 * 2.0 / 3.0 + 0.3 * good[1] / 3.0 - 0.1 * 0.7 / 2.0,
    ]
    assert shares == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("env", "channel"), [("coverage", "3gpp"), ("coverage_relay", "free_space")]
)
def test_users_and_drones_have_no_order(env, channel):
    params, reward = params_of(env, f"env.sim.radio.channel={channel}"), reward_of(env)
    opening = initial_state(params, keys(32, seed=2))
    generator = torch.Generator().manual_seed(0)
    users = torch.randperm(50, generator=generator)
    drones = torch.randperm(5, generator=generator)
    place = opening.users.place
    mixed = state_at(params, opening.position[:, drones], place[:, users])
    for mine, other in zip(opening.service, mixed.service, strict=True):
        torch.testing.assert_close(mine[drones], other, atol=1e-3, rtol=1e-5)
    one, two = (reward.shares(standing(params, state)) for state in (opening, mixed))
    torch.testing.assert_close(one[drones], two, atol=1e-5, rtol=0.0)
    sinr = [links_sinr(params, s.position, s.users.place, s.shadow) for s in (opening, mixed)]
    torch.testing.assert_close(sinr[0][drones][:, users], sinr[1], atol=0.0, rtol=1e-4)


def test_drones_fly_their_commands_within_their_box():
    params = params_of("coverage", "env.sim.num_drones=3", "env.sim.num_users=1")
    start = [[500.0, 500.0, 100.0], [990.0, 5.0, 149.0], [20.0, 500.0, 60.0]]
    state = state_at(params, rows(start), rows([[500.0, 500.0]]))
    action = rows([[0.5, -1.0, 0.1], [1.0, -1.0, 1.0], [-3.0, 0.0, -7.0]])
    moved = advance(params, state, action)
    expected = [[515.0, 470.0, 103.0], [1000.0, 0.0, 150.0], [0.0, 500.0, 50.0]]
    torch.testing.assert_close(moved.position.squeeze(-1).t(), torch.tensor(expected))
    assert moved.step.tolist() == [1]
    assert torch.equal(moved.users.place, state.users.place)


def test_drones_begin_anywhere_in_their_box():
    position = initial_state(params_of("coverage", "env.sim.num_users=1"), keys(4000)).position
    low, high = torch.tensor([0.0, 0.0, 50.0]), torch.tensor([1000.0, 1000.0, 150.0])
    spread = position.flatten(1)
    torch.testing.assert_close(spread.mean(1), (low + high) / 2.0, atol=0.0, rtol=0.02)
    torch.testing.assert_close(spread.std(1), (high - low) / math.sqrt(12.0), atol=0.0, rtol=0.02)
    assert ((spread >= low.unsqueeze(1)) & (spread <= high.unsqueeze(1))).all()


def place_of(kind, count=50):
    return placed(kind, keys(2000), count=count, side_m=1000.0, walking=False).place


def test_uniform_users_are_everywhere():
    spread = place_of("uniform").flatten(1)
    assert spread.mean(1).tolist() == pytest.approx([500.0, 500.0], abs=5.0)
    assert spread.std(1).tolist() == pytest.approx([1000.0 / math.sqrt(12.0)] * 2, rel=0.02)


def test_seven_of_ten_hot_users_are_around_the_middle():
    place = place_of("hotspot")
    apart = (place - 500.0).square().sum(0).sqrt()
    hot, rest = apart[:35].flatten(), place[:, 35:].flatten(1)
    assert hot.max() <= 1000.0 / 3.0 + 1e-3
    assert hot.mean().item() == pytest.approx(1000.0 / 6.0, rel=0.02)  # uniform in the radius
    assert rest.std(1).tolist() == pytest.approx([1000.0 / math.sqrt(12.0)] * 2, rel=0.02)


def test_clusters_are_five_clouds():
    place = place_of("cluster")
    assert ((place >= 0.0) & (place <= 1000.0)).all()
    clouds = place.unflatten(1, (10, 5))  # user j belongs to cloud j % 5
    inside = ((clouds > 0.0) & (clouds < 1000.0)).all(1).all(0)
    within = clouds.std(1).mean(0)[inside]
    assert within.mean().item() == pytest.approx(
        97.0, abs=12.0
    )  # 100 m, of ten, and without the clipped
    assert clouds.mean(1).std(-1).mean().item() > 200.0  # the clouds are apart


def test_walking_users_go_their_way_and_choose_another():
    users = placed("uniform", keys(8), count=20, side_m=1000.0, walking=True)
    gap = (users.goal - users.place).square().sum(0).sqrt()
    step = torch.zeros(8, dtype=torch.int32)
    arrivals = 0
    for number in range(30):
        before = users
        users = walked(users, keys(8), step + number, way_m=40.0, side_m=1000.0)
        moved = (users.place - before.place).square().sum(0).sqrt()
        left = (before.goal - before.place).square().sum(0).sqrt()
        torch.testing.assert_close(moved, left.clamp_max(40.0), atol=1e-2, rtol=0.0)
        chose = (users.goal != before.goal).any(0)
        assert torch.equal(chose, left <= 40.0)
        assert ((users.goal >= 0.0) & (users.goal <= 1000.0)).all()
        arrivals += int(chose.sum())
    assert arrivals > 100
    assert (gap > 40.0).any()


def test_shadows_are_drawn_once_an_episode():
    shadowed = params_of(
        "coverage", "env.sim.radio.channel=3gpp", "env.sim.radio.shadowing=per_episode"
    )
    state = initial_state(shadowed, keys(50))
    assert state.shadow.mean().item() == pytest.approx(0.0, abs=0.02)
    assert state.shadow.std().item() == pytest.approx(1.0, abs=0.02)
    later = advance(shadowed, state, torch.zeros(3, 5, 50))
    assert torch.equal(later.shadow, state.shadow)
    for mine, after in zip(state.service, later.service, strict=True):
        assert torch.equal(mine, after)  # nobody moved, nothing flickers
    assert connected(state).min() >= 0.0


def test_nobody_in_reach_is_worth_nothing_but_height():
    params = params_of("coverage", *SMALL, "env.sim.radio.min_sinr_db=100")
    state = state_at(params, rows(DRONES), rows(USERS))
    assert reward_of("coverage")(standing(params, state))[0].item() == pytest.approx(-0.06)


def test_a_reward_for_relaying_needs_a_station():
    params, state = by_hand("coverage", "urban")
    transition = standing(params, state)
    assert isinstance(transition, Transition)
    with pytest.raises(ValueError, match="change reward"):
        reward_of("coverage_relay")(transition)
