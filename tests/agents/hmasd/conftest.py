"""A small agent=hmasd for the game of chance."""

import functools

import pytest

from navrl.config.compose import build, compose
from tests.agents.hmasd import game


@functools.cache
def configuration(overrides):
    return compose("train", ["env=alice_and_bob", "agent=hmasd", "compile=off", *overrides]).agent


@pytest.fixture
def make_agent():
    """make_agent("agent.k=3", num_agents=2, discrete=True) -> the shipped agent, smaller."""

    def make(*overrides, num_agents=game.AGENTS, discrete=True, specs=None, num_iterations=10):
        parts = ("coordinator", "actor", "discriminator")
        small = (
            *("agent.network.hidden_sizes=[8]", "agent.coordinator.width=8", "agent.n_indiv=3"),
            *(f"agent.{part}.num_epochs=3" for part in parts),
        )
        observation, action = specs or game.specs(num_agents, discrete=discrete)
        return build(configuration((*small, *overrides)))(
            observation_spec=observation,
            action_spec=action,
            device="cpu",
            num_iterations=num_iterations,
        )

    return make
