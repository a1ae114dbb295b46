"""Which rollouts an agent learns from: its own version's, and with lag those of the one before."""

import copy

import pytest
import torch

from navrl.agents.ppo.lag import OneVersion
from tests.small_fight import *  # noqa: F403  (env, agent and collector)


def rollout_of(collector, policy):
    """A rollout by this policy, whatever the collector was made for."""
    collector.policy.load_state_dict(policy.state_dict())
    collector.policy.version = policy.version
    return next(iter(collector)).clone()


@pytest.fixture
def trio(make_env, make_agent, make_collector):
    """agent, its collector's own policy, and rollouts by any policy."""
    env = make_env()
    agent = make_agent(env)
    collector = make_collector(env, copy.deepcopy(agent.policy), iterations=20)
    return agent, lambda policy: rollout_of(collector, policy)


def test_without_lag_the_version_before_is_refused(trio):
    agent, collect = trio
    old = copy.deepcopy(agent.policy)
    agent.update(collect(agent.policy))
    with pytest.raises(RuntimeError, match="carries policy version 0; expected 1"):
        agent.update(collect(old))


def test_with_lag_one_version_is_allowed_and_two_are_not(trio):
    agent, collect = trio
    agent.allow_lag()
    versions = []
    for _ in range(3):
        versions.append(copy.deepcopy(agent.policy))
        agent.update(collect(agent.policy))
    assert agent.update(collect(versions[2]))["sync/lag"] == 1.0
    with pytest.raises(RuntimeError, match="carries policy version 2; expected 4"):
        agent.update(collect(versions[2]))


def test_weights_that_are_not_of_the_version_are_found_out_and_nothing_is_learned(trio):
    agent, collect = trio
    agent.allow_lag()
    old = copy.deepcopy(agent.policy)
    agent.update(collect(agent.policy))
    with torch.no_grad():
        old.trunk.last.bias += torch.linspace(-1.0, 1.0, len(old.trunk.last.bias))
    before = copy.deepcopy(agent.policy.state_dict())
    with pytest.raises(RuntimeError, match="was not collected by this policy"):
        agent.update(collect(old))
    assert all(torch.equal(agent.policy.state_dict()[key], before[key]) for key in before)


def test_the_order_of_minibatches_is_its_own_and_repeats(trio):
    agent, collect = trio
    agent.allow_lag()
    state = torch.get_rng_state()
    rollout = collect(agent.policy)
    drawn = torch.get_rng_state()
    agent.update(rollout)
    assert torch.equal(torch.get_rng_state(), drawn)  # collecting drew, learning did not
    assert not torch.equal(state, drawn)
    orders = []
    for version in (3, 3, 4):
        lag = OneVersion(agent.policy)
        policy = copy.deepcopy(agent.policy)
        policy.version = version
        lag.remember(policy)
        orders.append(torch.randperm(1000, generator=lag.generator))
    assert torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0], orders[2])
