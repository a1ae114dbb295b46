"""agent.network.rnn=gru: PPO learns from chunks the actions that its actor took step by step."""

import pytest
import torch
from tensordict import TensorDict
from torch.nn import functional

from navrl.agents.core.team import TeamOptions
from navrl.agents.networks.memory import FRESH, HIDDEN
from tests.agents import squad

N, T, L = 6, 12, 4
GRU = {"rnn": "gru", "chunk_length": L}


def flown(policy, seen, done, hidden=None):
    """(N, T) frames of the policy's own actions, seen step by step; what it remembers is handed on."""
    frames = []
    for t in range(done.shape[1]):
        frame = TensorDict({"observation": {"ego": seen[:, t]}}, [len(seen)])
        frame["action_mask"] = torch.ones(len(seen), 5, dtype=torch.bool)
        if hidden is not None:
            frame[HIDDEN] = hidden
        with torch.no_grad():
            policy(frame)
        hidden = torch.where(done[:, t], 0.0, frame["next", HIDDEN])
        frame["next", "observation", "ego"] = seen[:, t + 1]
        frame["next", "reward"] = torch.randn(len(seen), 1)
        for flag in ("done", "terminated"):
            frame["next", flag] = done[:, t]
        frame["next", "truncated"] = torch.zeros_like(done[:, t])
        frames.append(frame)
    return torch.stack(frames, 1).set_non_tensor("policy_version", policy.version), hidden


def rollout_of(agent):
    """The second of two rollouts, so that it begins with a memory."""
    torch.nn.init.normal_(
        agent.policy.trunk.last.weight
    )  # else nobody would see what is remembered
    never = torch.zeros(N, T, 1, dtype=torch.bool)
    _, hidden = flown(agent.policy, torch.randn(N, T + 1, 3), never)
    return flown(agent.policy, torch.randn(N, T + 1, 3), torch.rand(N, T, 1) < 0.2, hidden)[0]


def by_hand(agent, rollout):
    """Log-probs of a rollout (N, T), cell by cell and in one go from its first step."""
    trunk = agent.policy.trunk
    cell, norm = trunk.memory.cell, trunk.memory.norm
    hidden, found = rollout[HIDDEN][:, 0], []
    for t in range(T):
        rows = trunk.encoder.normalisers["ego"](rollout["observation", "ego"][:, t])
        gates = functional.linear(torch.tanh(trunk.layers[0](rows)), cell.weight_ih, cell.bias_ih)
        before = functional.linear(hidden, cell.weight_hh, cell.bias_hh)
        (reset, update, new), (reset_h, update_h, new_h) = gates.chunk(3, -1), before.chunk(3, -1)
        update = torch.sigmoid(update + update_h)
        new = torch.tanh(new + torch.sigmoid(reset + reset_h) * new_h)
        hidden = (1.0 - update) * new + update * hidden
        logits = trunk.last(norm(hidden)).split([3, 2], -1)
        action = rollout["action"][:, t]
        chosen = [
            part.log_softmax(-1).gather(-1, action[:, i : i + 1]) for i, part in enumerate(logits)
        ]
        found.append(torch.cat(chosen, -1).sum(-1))
        hidden = torch.where(rollout["next", "done"][:, t], 0.0, hidden)
    return torch.stack(found, 1)


def test_what_was_done_is_what_the_gates_say(make_agent):
    agent = make_agent(**GRU)
    rollout = rollout_of(agent)
    assert rollout["next", "done"][:, :-1].any()
    torch.testing.assert_close(
        by_hand(agent, rollout), rollout["action_log_prob"], atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("length", [1, L, T])
def test_chunks_say_what_was_done_step_by_step(make_agent, length):
    agent = make_agent(rnn="gru", chunk_length=length)
    rollout = rollout_of(agent)
    rows = agent.policy.trunk.memory.rows(rollout)
    assert rows.shape == (N * T // length, length)
    again = agent.policy.get_dist(rows).log_prob(rows["action"]).view(N, T)
    torch.testing.assert_close(again, rollout["action_log_prob"], atol=1e-5, rtol=0)
    if length > 1:  # the control: without the resets it does something else
        rows[FRESH] = torch.zeros_like(rows[FRESH])
        again = agent.policy.get_dist(rows).log_prob(rows["action"]).view(N, T)
        assert (again - rollout["action_log_prob"]).abs().max() > 1e-3


def test_the_gradient_goes_through_time(make_agent):
    agent = make_agent(rnn="gru", chunk_length=T)
    rollout = rollout_of(agent)
    rows = agent.policy.trunk.memory.rows(rollout)
    weights = torch.randn(N, T)  # of no meaning: they only tell the steps apart
    parameters = [*agent.policy.trunk.memory.parameters(), *agent.policy.trunk.layers.parameters()]
    chunked = (agent.policy.get_dist(rows).log_prob(rows["action"]) * weights).sum()
    whole = (by_hand(agent, rollout) * weights).sum()
    for found, expected in zip(
        torch.autograd.grad(chunked, parameters),
        torch.autograd.grad(whole, parameters),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "options", [{}, {"accumulate": 2}, pytest.param({"compile_mode": "on"}, marks=pytest.mark.slow)]
)
def test_an_update_learns_a_rollout_of_its_own_and_no_other(make_agent, options):
    agent = make_agent(**GRU, num_minibatches=3, **options)
    before = agent.policy.trunk.memory.cell.weight_hh.detach().clone()
    metrics = agent.update(rollout_of(agent))
    assert metrics["sync/replay_error"] <= 1e-5
    assert not torch.equal(before, agent.policy.trunk.memory.cell.weight_hh)
    foreign = rollout_of(agent)
    foreign[HIDDEN] = torch.randn_like(foreign[HIDDEN])
    with pytest.raises(RuntimeError, match="not collected by this policy"):
        agent.update(foreign)


def test_each_actor_of_a_team_remembers_for_itself(make_squad_agent):
    team = TeamOptions(critic="own", share_actor=False, agent_id=False)
    policy = make_squad_agent(mortal=False, team=team, **GRU).policy
    seen = squad.seen_by((squad.NUM_ENVS, squad.AGENTS))
    frames = policy(TensorDict({"agents": seen}, [squad.NUM_ENVS]))
    first = frames["next", "agents", HIDDEN]
    assert first.shape == (squad.NUM_ENVS, squad.AGENTS, 8)
    for i, actor in enumerate(policy.trunk.actors):
        _, remembered = actor.step(policy.with_agent_ids(frames["agents"])[:, i])
        torch.testing.assert_close(remembered, first[:, i])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"rnn": "lstm"},
            r"agent.network.rnn = lstm; expected one of none, gru; change agent.network.rnn",
        ),
        (
            {"rnn": "gru", "chunk_length": 0},
            r"agent.network.chunk_length = 0; expected a whole number, 1 or more",
        ),
        (
            {"rnn": "gru", "architecture": "navrl"},
            r"agent.network.architecture = navrl with agent.network.rnn = gru",
        ),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(make_agent, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_agent(**options)


def test_rollouts_have_to_split_into_chunks_and_these_into_minibatches(make_agent):
    agent = make_agent(rnn="gru", chunk_length=5)
    with pytest.raises(
        ValueError, match=r"rollout_steps = 12 is not a multiple of agent\.network\.chunk"
    ):
        agent.check_rollout_size(N, 12)
    agent = make_agent(num_minibatches=4, **GRU)
    with pytest.raises(
        ValueError, match=r"/ agent.network.chunk_length = 18 is not a multiple of num_minibatches"
    ):
        agent.check_rollout_size(N, T)
