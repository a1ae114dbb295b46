"""When skills are chosen, against a count by hand; and that no step and no reward is lost."""

import pytest
import torch

from navrl.agents.hmasd.returns import ENDS
from navrl.agents.hmasd.rollout import INTERVAL, KEPT, RESET, ROLLOUT_START, team_rollout
from tests.agents.hmasd import game

STEPS = 23


def expected_reasons(done, interval):
    """Of one env's rollout, by hand: why there was a decision at each step."""
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


@pytest.mark.parametrize("interval", [1, 2, 3, 10, 17, 50])
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


@pytest.mark.parametrize("interval", [1, 3, 10, 50])
def test_steps_and_rewards_are_all_accounted_for(make_agent, interval):
    agent = make_agent(f"agent.k={interval}")
    rollout, _ = game.collect(agent.policy, STEPS)
    block = team_rollout(rollout)
    metrics = agent.high.prepare(block).metrics
    number = metrics["high/decisions"].item()
    frames = game.NUM_ENVS * STEPS
    assert number == (rollout["skill", "reason"] > 0).sum().item()
    assert metrics["high/decision_steps"].item() * number == pytest.approx(frames)
    assert metrics["high/decision_reward"].item() * number == pytest.approx(
        rollout["next", "reward"].sum().item(), rel=1e-5
    )
    by_reason = [metrics[f"high/ended_by/{name}"].item() for name in ENDS]
    assert sum(by_reason) == number
    assert by_reason[1] == rollout["next", "done"].sum().item()
    assert metrics["high/decisions_per_env/mean"].item() * game.NUM_ENVS == number


def test_a_skill_that_lasted_its_whole_interval_was_not_cut_by_the_end_of_the_rollout(make_agent):
    agent = make_agent("agent.k=5")
    for steps, whole, cut in ((10, 8, 0), (12, 8, 4)):
        rollout, _ = game.collect(agent.policy, steps, ending=0.0)
        metrics = agent.high.prepare(team_rollout(rollout)).metrics
        assert metrics["high/ended_by/interval"].item() == whole
        assert metrics["high/ended_by/rollout_end"].item() == cut


def test_what_is_cut_short_can_be_dropped(make_agent):
    agent = make_agent("agent.k=5", "agent.coordinator.partial=drop")
    rollout, _ = game.collect(agent.policy, 12, ending=0.0)
    assert agent.high.prepare(team_rollout(rollout)).batch.skills.shape == (2 * game.NUM_ENVS, 3)


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
