"""Agents that die: what they do and see afterwards teaches nothing."""

import copy

import pytest
import torch

from navrl.agents.hmasd.rollout import team_rollout
from tests.agents.hmasd import game
from tests.agents.hmasd.test_agent import STEPS, weights


def with_deaths(rollout):
    """A third of all agents are dead, before or after a step."""
    for frames in (rollout, rollout["next"]):
        shape = frames["agents"].shape
        frames["agents", "alive"] = torch.rand(*shape, 1) > 1 / 3
    return rollout


def without_the_dead(rollout):
    """The same rollout, in which the dead do and see anything."""
    other = rollout.clone()
    for frames, told in ((other, ["action"]), (other["next"], ["observation"])):
        dead = ~frames["agents", "alive"].squeeze(-1)
        for name in told:
            for leaf in frames["agents"].select(name).values(include_nested=True, leaves_only=True):
                leaf[dead] = torch.randint_like(leaf[dead], 2)
    return other


def for_good(rollout):
    """The same rollout, in which nobody comes to life again."""
    alive = rollout["agents", "alive"].cumprod(1).bool()
    rollout["agents", "alive"] = alive
    rollout["next", "agents", "alive"] = torch.cat([alive[:, 1:], alive[:, -1:]], 1)
    return rollout


@pytest.mark.parametrize("memory", [(), ("agent.actor.rnn=gru", "agent.actor.chunk_length=4")])
def test_what_the_dead_do_and_see_teaches_nothing(make_agent, memory):
    # Without a coordinator, because it looks at everybody; it is told by the state who is dead.
    agent = make_agent("agent.ablation=no_high", "agent.intrinsic.center=true", *memory)
    rollout = for_good(with_deaths(game.collect(agent.policy, STEPS)[0]))
    other = copy.deepcopy(agent)
    assert other.update(without_the_dead(rollout)) == agent.update(rollout)
    assert all(torch.equal(tensor, weights(other)[name]) for name, tensor in weights(agent).items())


def test_no_skill_of_the_dead_is_better_than_another(make_agent):
    agent = make_agent("agent.k=3")
    rollout = with_deaths(game.collect(agent.policy, STEPS)[0])
    batch = agent.high.prepare(team_rollout(rollout)).batch
    alive = rollout["agents", "alive"].squeeze(-1)[rollout["skill", "reason"].squeeze(-1) > 0]
    assert (~alive).any()
    assert torch.equal(batch.advantage[:, 1:] != 0.0, alive)
    assert (batch.advantage[:, 0] != 0.0).all()
