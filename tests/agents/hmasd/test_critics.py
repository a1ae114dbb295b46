"""What the two critics of the low level look at, and what it is good for."""

import pytest
import torch

from navrl.agents.hmasd.low_level import CriticInputs
from navrl.agents.hmasd.rollout import team_rollout
from tests.agents.hmasd import game


def moments(agent, steps=5):
    """Moments of a rollout."""
    block = team_rollout(game.collect(agent.policy, steps)[0])
    return CriticInputs(block.state, block.team, block.frames.select("observation"), block.skill)


@pytest.mark.parametrize("critic", ["team", "both"])
def test_values_by_hand(make_agent, critic):
    agent = make_agent("agent.k=3", "agent.n_team=2", f"agent.actor.critic={critic}")
    network = agent.critic.network
    torch.nn.init.normal_(network.last.weight)
    judged = moments(agent)
    with torch.no_grad():
        found = network(judged)
    assert found.shape == (game.NUM_ENVS, 5, game.AGENTS)
    assert found.std() > 0.1
    for env, t in ((0, 0), (1, 3), (3, 4)):
        state, team = judged.state[env, t], torch.eye(2)[judged.team[env, t]]
        for number in range(game.AGENTS):
            if critic == "team":
                row = torch.cat([network.layers(state), team])
            else:
                view = judged.frames["observation", "view"][env, t, number]
                own = torch.eye(3)[judged.skill[env, t, number]]
                row = network.layers(torch.cat([state, team, view, own]))
            assert found[env, t, number].item() == pytest.approx(network.last(row).item(), abs=1e-5)


def explained(make_agent, critic):
    """How much of rewards that depend on what each agent sees is explained after some rounds."""
    free = [f"agent.intrinsic.{name}=0" for name in ("lambda_team", "lambda_indiv")]
    agent = make_agent(
        *("agent.k=3", "agent.discount=0", f"agent.actor.critic={critic}", *free),
        *("agent.actor.critic_learning_rate=0.02", "agent.actor.num_epochs=20"),
        "agent.ppo.value_clip=null",
        num_iterations=100,
    )
    for _ in range(6):
        rollout, _ = game.collect(agent.policy, 40)
        rollout["next", "agents", "reward"] = rollout["agents", "observation", "view"][..., :1]
        metrics = agent.update(rollout)
    return metrics["low/loss/explained_variance"]


def test_rewards_of_their_own_are_foreseen_by_a_critic_that_sees_the_agent(make_agent):
    assert explained(make_agent, "both") > 0.7
    assert explained(make_agent, "team") < 0.2
