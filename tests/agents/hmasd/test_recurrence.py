"""rnn=gru: what is learned from chunks is what was done step by step, also where episodes ended."""

import pytest
import torch

from navrl.agents.hmasd.rollout import team_rollout
from navrl.agents.networks.memory import HIDDEN, GruRecurrence, chunks
from tests.agents.hmasd import game

GRU = ("agent.k=3", "agent.actor.rnn=gru", "agent.actor.chunk_length=5")


def collected(agent, **options):
    """Two rollouts, of which the second begins with a memory."""
    torch.nn.init.normal_(agent.policy.actor.out.weight)  # else nobody would see what is remembered
    _, root = game.collect(agent.policy, 5, ending=0.0)
    return game.collect(agent.policy, 20, root=root, **options)[0]


def test_a_rollout_is_replayed_in_chunks(make_agent):
    agent = make_agent(*GRU)
    rollout = collected(agent, ending=0.15)
    assert rollout["next", "done"][:, :-1].any()
    block = team_rollout(rollout)
    low = agent.low.prepare(block, torch.randn_like(block.skill, dtype=torch.float32))
    assert low.replay_error.item() <= 1e-5
    assert low.actions.hidden.abs().amax(-1).max() > 0.01
    # The control: who forgets what was remembered, or remembers what was forgotten, does something else.
    for spoiled in (
        low.actions._replace(hidden=torch.zeros_like(low.actions.hidden)),
        low.actions._replace(fresh=torch.zeros_like(low.actions.fresh)),
    ):
        again = agent.low._distribution(spoiled).log_prob(spoiled.action)
        assert (again - spoiled.log_prob).abs().max() > 1e-3


def test_an_episode_begins_with_nothing_in_mind(make_agent):
    agent = make_agent(*GRU)
    rollout = collected(agent, ending=0.3)
    ended = rollout["next", "done"][:, :-1, 0]
    hidden = rollout["agents", HIDDEN]
    assert (hidden[:, 1:][ended] == 0.0).all()
    assert (hidden[:, 1:][~ended].abs().amax(-1) > 0.0).all()
    kept = ~ended
    assert torch.equal(hidden[:, 1:][kept], rollout["next", "agents", HIDDEN][:, :-1][kept])


def test_a_memory_learns_and_goes_on(make_agent):
    agent = make_agent(*GRU)
    before = agent.policy.actor.memory.cell.weight_hh.detach().clone()
    root = None
    for _ in range(2):
        rollout, root = game.collect(agent.policy, 20, root=root)
        metrics = agent.update(rollout)
        assert metrics["low/sync/replay_error"] <= 1e-5
    assert not torch.equal(before, agent.policy.actor.memory.cell.weight_hh)


def test_chunks_are_steps_of_one_agent_in_order():
    rows = torch.arange(2 * 6 * 3).view(2, 6, 3)
    found = chunks(rows, 3)
    assert found.shape == (12, 3)
    assert found[0].tolist() == rows[0, :3, 0].tolist()
    assert found[1].tolist() == rows[0, 3:, 0].tolist()
    assert found[-1].tolist() == rows[1, 3:, 2].tolist()


def test_chunks_in_one_go_are_steps_one_by_one():
    memory = GruRecurrence(4, 6)
    rows, hidden = torch.randn(5, 6, 4), torch.randn(5, 4)
    fresh = torch.rand(5, 6) < 0.3
    whole = memory(rows, hidden, fresh)
    for row in range(5):
        now = hidden[row]
        for t in range(6):
            if fresh[row, t]:
                now = torch.zeros(4)
            found, now = memory.step(rows[row, t].view(1, 4), now.view(1, 4))
            torch.testing.assert_close(whole[row, t], found[0], atol=1e-5, rtol=0.0)
            now = now[0]


def test_rollouts_that_do_not_split_into_chunks_are_refused(make_agent):
    agent = make_agent(*GRU)
    rollout, _ = game.collect(agent.policy, 12)
    with pytest.raises(
        ValueError, match=r"rollout_steps = 12 is not a multiple of agent\.actor\.chunk"
    ):
        agent.update(rollout)
