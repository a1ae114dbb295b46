"""Decisions of the policy against a count by hand, and its memory from step to step."""

import pytest
import torch

from navrl.agents.hmasd.rollout import INTERVAL, KEPT, RESET, ROLLOUT_START
from navrl.agents.networks.memory import HIDDEN
from tests.agents.hmasd import game

STEPS = 23


def expected_reasons(done, interval):
    """Return the reason for a decision at each step of one env's rollout, by hand."""
    reasons, since = [], None
    for t, ended_before in enumerate([None, *done[:-1]]):
        if t == 0 or ended_before:
            since, reason = 0, ROLLOUT_START if t == 0 else RESET
        elif since == interval:
            since, reason = 0, INTERVAL
        else:
            reason = KEPT
        reasons.append(reason)
        since += 1
    return reasons


@pytest.mark.parametrize("interval", [1, 3, 10, 50])
@pytest.mark.parametrize("ending", [0.0, 0.15])
def test_decisions_are_made_at_resets_after_intervals_and_under_a_new_policy(
    make_agent, interval, ending
):
    agent = make_agent(f"agent.k={interval}")
    first, root = game.collect(agent.policy, STEPS, ending=ending)
    agent.policy.version += 1
    rollout, _ = game.collect(agent.policy, STEPS, ending=ending, root=root)
    ended_last = first["next", "done"][:, -1, 0]
    for env in range(game.NUM_ENVS):
        done = rollout["next", "done"][env, :, 0].tolist()
        expected = expected_reasons(done, interval)
        if ended_last[env]:
            expected[0] = RESET
        assert rollout["skill", "reason"][env, :, 0].tolist() == expected
    decided = rollout["skill", "reason"] != KEPT
    chosen = rollout["skill", "chosen"]
    kept = ~decided[:, 1:].expand_as(chosen[:, 1:])
    assert torch.equal(chosen[:, 1:][kept], chosen[:, :-1][kept])
    assert torch.equal(rollout["skill", "timer"] == 0, decided)
    assert (rollout["skill", "stamp"] == 2).all()
    assert torch.equal(rollout["agents", "skill"], chosen[..., 1:])


def test_all_agents_share_the_teams_skill_without_skills_of_their_own(make_agent):
    agent = make_agent("agent.k=3", "agent.ablation=no_indi")
    rollout, _ = game.collect(agent.policy, 8)
    assert rollout["skill", "chosen"].shape[-1] == 1
    team = rollout["skill", "chosen"].expand(-1, -1, game.AGENTS)
    assert torch.equal(rollout["agents", "skill"], team)


def test_drawn_skills_last_as_long_as_the_episode(make_agent):
    agent = make_agent("agent.k=3", "agent.ablation=no_high")
    rollout, _ = game.collect(agent.policy, STEPS)
    reasons = rollout["skill", "reason"]
    assert (reasons == INTERVAL).sum() == 0
    assert (reasons == RESET).sum() == game.NUM_ENVS + rollout["next", "done"][:, :-1].sum()


def test_a_policy_without_a_memory_in_its_input_begins_anew(make_agent):
    agent = make_agent("agent.k=3")
    acted = agent.policy(game.seen(3, 2))
    assert acted["skill", "reason"].squeeze(-1).tolist() == [RESET] * 3
    assert (acted["next", "skill", "timer"] == 1).all()


def test_the_hidden_state_is_carried_and_zeros_where_an_episode_begins(make_agent):
    agent = make_agent("agent.k=3", "agent.actor.rnn=gru", "agent.actor.chunk_length=5")
    _, root = game.collect(agent.policy, 5, ending=0.0)
    rollout, _ = game.collect(agent.policy, 20, root=root, ending=0.3)
    ended = rollout["next", "done"][:, :-1, 0]
    hidden = rollout["agents", HIDDEN]
    assert (hidden[:, 1:][ended] == 0.0).all()
    assert (hidden[:, 1:][~ended].abs().amax(-1) > 0.0).all()
    kept = ~ended
    assert torch.equal(hidden[:, 1:][kept], rollout["next", "agents", HIDDEN][:, :-1][kept])


@pytest.mark.commands  # it compiles
def test_a_compiled_policy_makes_the_same_decisions_of_the_same_random_numbers(make_agent):
    eager = make_agent("agent.k=3")
    compiled = make_agent("agent.k=3", "agent.compile_mode=on")
    compiled.load_state_dict(eager.state_dict())
    seen, found = game.seen(64, 2), []
    for agent in (eager, compiled):
        torch.manual_seed(7)
        found.append(agent.policy(seen.clone()))
    for key in (("skill", "chosen"), ("agents", "skill"), ("agents", "action")):
        assert torch.equal(found[0][key], found[1][key])
    for key in (("skill", "log_prob"), ("agents", "action_log_prob")):
        torch.testing.assert_close(found[0][key], found[1][key], rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("due", [[2], [0, 3, 4], []])
def test_skills_chosen_for_some_envs_are_those_chosen_for_all(make_agent, monkeypatch, due):
    agent, found = make_agent("agent.k=3"), []
    seen = agent.policy(game.seen(6, 2))
    after = game.seen(6, 2)
    after["skill"] = seen["next", "skill"].clone()
    after["skill", "timer"][due] = 3
    for everybody in (False, True):
        if everybody:
            monkeypatch.setattr("navrl.agents.hmasd.policy._rows_to_decide", lambda _: None)
        torch.manual_seed(5)
        found.append(agent.policy(after.clone()))
    assert found[0]["skill", "reason"].flatten().nonzero().flatten().tolist() == due
    for key in ("chosen", "timer", "stamp", "reason"):
        assert torch.equal(found[0]["skill", key], found[1]["skill", key])
    torch.testing.assert_close(found[0]["skill", "log_prob"], found[1]["skill", "log_prob"])
