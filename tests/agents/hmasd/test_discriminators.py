"""The low-level reward from log-softmax by hand, at the true end of each step."""

import math

import pytest
import torch

from navrl.agents.hmasd.discriminators import low_level_reward
from navrl.agents.hmasd.options import IntrinsicOptions
from navrl.agents.hmasd.rollout import team_rollout
from tests.agents.hmasd import game


def rewards(agent, rollout, **changes):
    options = IntrinsicOptions(
        **{"lambda_e": 2.0, "lambda_team": 0.3, "lambda_indiv": 0.7, "center": False, **changes}
    )
    env = rollout.own_reward.flatten(0, 1)
    with torch.no_grad():
        return low_level_reward(options, agent.discriminators, rollout.outcomes(), env)


def test_rewards_by_hand_where_each_step_truly_led(make_agent):
    agent = make_agent("agent.k=3")
    for module in (agent.discriminators.team, agent.discriminators.individual):
        torch.nn.init.normal_(module.out.weight)
    rollout, _ = game.collect(agent.policy, 12, ending=0.4)
    assert rollout["next", "done"].any()
    found = rewards(agent, team_rollout(rollout)).total.view(game.NUM_ENVS, 12, game.AGENTS)
    for env in range(game.NUM_ENVS):
        for t in range(12):
            ahead = rollout[env, t]["next"]
            team, *individual = rollout["skill", "chosen"][env, t].tolist()
            net = agent.discriminators.team
            logits = net.out(net.layers(ahead["state"]))
            shared = (
                2.0 * ahead["reward"].item() + 0.3 * (logits[team] - logits.logsumexp(-1)).item()
            )
            net = agent.discriminators.individual
            for i, skill in enumerate(individual):
                team_skill = torch.eye(2)[team]
                rows = torch.cat([ahead["agents", "observation", "view"][i], team_skill])
                logits = net.out(net.layers(rows))
                own = 0.7 * (logits[skill] - logits.logsumexp(-1)).item()
                assert found[env, t, i].item() == pytest.approx(shared + own, abs=1e-5)


@pytest.mark.parametrize("center", [False, True])
def test_a_discriminator_that_only_guesses_gives_nothing_or_the_chance_level(make_agent, center):
    agent = make_agent("agent.k=3")
    for module in (agent.discriminators.team, agent.discriminators.individual):
        torch.nn.init.zeros_(module.out.weight)
    rollout, _ = game.collect(agent.policy, 5, reward=torch.zeros(game.NUM_ENVS, 1))
    expected = 0.0 if center else -0.3 * math.log(2) - 0.7 * math.log(3)
    total = rewards(agent, team_rollout(rollout), center=center).total
    torch.testing.assert_close(total, torch.full_like(total, expected))


def test_rewards_of_agents_replace_that_of_the_team(make_agent):
    agent = make_agent("agent.k=3")
    rollout, _ = game.collect(agent.policy, 5)
    own = torch.randn(game.NUM_ENVS, 5, game.AGENTS, 1)
    less = rollout["next", "reward"].unsqueeze(2) - own
    shared = rewards(agent, team_rollout(rollout)).total
    rollout["next", "agents", "reward"] = own
    found = rewards(agent, team_rollout(rollout)).total
    torch.testing.assert_close(shared - found, 2.0 * less.flatten(0, 1).squeeze(-1))


def test_dead_agents_have_the_intrinsic_reward_of_the_team_only(make_agent):
    agent = make_agent("agent.k=3")
    torch.nn.init.normal_(agent.discriminators.individual.out.weight)
    rollout, _ = game.collect(agent.policy, 5)
    alive = torch.rand(game.NUM_ENVS, 5, game.AGENTS, 1) > 0.5
    living = rewards(agent, team_rollout(rollout)).total
    rollout["next", "agents", "alive"] = alive
    found, shared = (
        rewards(agent, team_rollout(rollout), **changes).total
        for changes in ({}, {"lambda_indiv": 0.0})
    )
    torch.testing.assert_close(found, torch.where(alive.flatten(0, 1).squeeze(-1), living, shared))


@pytest.mark.parametrize(
    ("ablation", "expected"),
    [
        ("none", (10.0, 0.1, 0.2)),
        ("no_team", (10.0, 0.0, 0.2)),
        ("no_indi", (10.0, 0.1, 0.0)),
        ("no_ex", (0.0, 0.1, 0.2)),
        ("no_in", (10.0, 0.0, 0.0)),
        ("no_high", (10.0, 0.1, 0.2)),
    ],
)
def test_ablations_remove_parts_of_the_reward(make_agent, ablation, expected):
    agent = make_agent(f"agent.ablation={ablation}")
    options = agent.method.intrinsic
    assert (options.lambda_e, options.lambda_team, options.lambda_indiv) == expected
