"""A small fight, an agent for it, and the collector between them."""

import functools

import pytest
import torch

from navrl.collectors.sync import SyncCollector
from navrl.config.compose import build, compose

__all__ = ["_one_thread_one_seed", "make_agent", "make_collector", "make_env"]
NUM_ENVS, STEPS = 4, 5


@functools.cache
def configuration():
    return compose(
        "train",
        [
            "env=combat",
            "opponent=crank",
            "compile=off",
            "scenario.range_m=[4000,9000]",  # episodes of 5 to 10 steps
            "agent.network.hidden_sizes=[8]",
            "agent.network.precision=fp32",
            "agent.num_minibatches=2",
        ],
    )


@pytest.fixture(autouse=True)
def _one_thread_one_seed():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
    torch.set_num_threads(threads)


@pytest.fixture
def make_env():
    def make(seed=0):
        return build(configuration().env)(num_envs=NUM_ENVS, device="cpu", seed=seed)

    return make


@pytest.fixture
def make_agent():
    def make(env):
        return build(configuration().agent)(
            observation_spec=env.observation_spec,
            action_spec=env.action_spec,
            device="cpu",
            num_iterations=10,
        )

    return make


@pytest.fixture
def make_collector(request):
    """make_collector(env, policy) -> a collector, shut down after the test."""

    def make(env, policy, *, kind=SyncCollector, iterations=4, rollout_steps=STEPS):
        collector = kind(
            env=env,
            policy=policy,
            rollout_steps=rollout_steps,
            total_frames=iterations * NUM_ENVS * rollout_steps,
        )
        request.addfinalizer(collector.shutdown)
        return collector

    return make
