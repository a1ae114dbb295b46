"""The actor, its critics and its memory, and how skills differ before anything is learned."""

import pytest
import torch
from torchrl.data import Bounded, MultiCategorical

from navrl.agents.hmasd.low_level import CriticInputs, initial_biases
from navrl.agents.hmasd.rollout import team_rollout
from navrl.agents.networks.heads import head_for
from navrl.envs.core.specs import Hybrid
from tests.agents.hmasd import game

GRU = ("agent.k=3", "agent.actor.rnn=gru", "agent.actor.chunk_length=5")


# ---- the actor -------------------------------------------------------------------------------


@pytest.mark.parametrize("injection", ["last", "input", "both"])
def test_skills_steer_the_actor_wherever_they_come_in(make_agent, injection):
    agent = make_agent(f"agent.actor.skill_injection={injection}")
    torch.nn.init.normal_(agent.policy.actor.out.weight)
    frames = game.seen(5, 2)["agents"]
    one, other = (
        agent.policy.actor.step(frames, torch.full((5, 2), skill), torch.zeros(5, 2, 0))[
            0
        ].log_prob(torch.zeros(5, 2, 2, dtype=torch.int64))
        for skill in (0, 1)
    )
    assert ((one - other).abs() > 1e-4).all()


def five_actions():
    return head_for(MultiCategorical([5], shape=(1,)))


def test_every_two_actions_have_a_skill_that_leans_to_both():
    rows = initial_biases("pairs", 10, 2.0, five_actions())
    torch.testing.assert_close(rows.norm(dim=-1), torch.full((10,), 4.0))  # 2 * sqrt(5 - 1)
    torch.testing.assert_close(rows.sum(-1), torch.zeros(10), atol=1e-5, rtol=0.0)
    liked = {tuple((row > 0).nonzero().flatten().tolist()) for row in rows}
    assert liked == {(i, j) for i in range(5) for j in range(i + 1, 5)}
    for row in rows:
        assert row[row > 0].unique().numel() == row[row < 0].unique().numel() == 1
    likes = [(initial_biases("pairs", n, 2.0, five_actions()) > 0).sum(0) for n in (5, 10)]
    assert [count.tolist() for count in likes] == [[2] * 5, [4] * 5]  # no action is favoured


def test_spread_skills_go_both_ways_along_a_basis_of_all_differences():
    rows = initial_biases("spread", 8, 2.0, five_actions())
    torch.testing.assert_close(rows.norm(dim=-1), torch.full((8,), 4.0))  # 2 * sqrt(5 - 1)
    torch.testing.assert_close(rows.sum(-1), torch.zeros(8), atol=1e-5, rtol=0.0)
    assert torch.equal(rows[1::2], -rows[::2])
    # A tight frame: the squared leanings of all skills to any difference sum to the same.
    frame = rows.T @ rows
    torch.testing.assert_close(frame, 32.0 * (torch.eye(5) - 0.2), atol=1e-4, rtol=0.0)
    for _ in range(100):
        direction = torch.randn(5)
        direction = (direction - direction.mean()) / (direction - direction.mean()).norm()
        assert (rows @ direction).max() >= 4.0 / 4**0.5 - 1e-4


@pytest.mark.parametrize(
    ("spec", "groups"),
    [
        (MultiCategorical([3, 2], shape=(2,)), [[0, 1, 2], [3, 4]]),
        (Bounded(-1.0, 1.0, shape=(3,)), [[0, 3], [1, 4], [2, 5]]),
        (Hybrid([-1.0, 0.0], [1.0, 1.0], shape=(2,)), [[0, 1], [2, 3]]),
    ],
)
@pytest.mark.parametrize("kind", ["pairs", "spread"])
def test_only_what_competes_is_weighed_against_each_other(spec, groups, kind):
    head = head_for(spec)
    rows = initial_biases(kind, 6, 1.0, head)
    freedom = sum(len(group) - 1 for group in groups)
    assert sorted(sum(groups, [])) == list(range(head.outputs))  # noqa: RUF017
    torch.testing.assert_close(rows.norm(dim=-1), torch.full((6,), freedom**0.5))
    for group in groups:
        torch.testing.assert_close(rows[:, group].sum(-1), torch.zeros(6), atol=1e-5, rtol=0.0)


# ---- the critics -----------------------------------------------------------------------------


@pytest.mark.parametrize("critic", ["team", "both"])
def test_values_by_hand(make_agent, critic):
    agent = make_agent("agent.k=3", "agent.n_team=2", f"agent.actor.critic={critic}")
    network = agent.critic.network
    torch.nn.init.normal_(network.last.weight)
    rollout = team_rollout(game.collect(agent.policy, 5)[0])
    observed = rollout.frames.select("observation")
    inputs = CriticInputs(rollout.state, rollout.team, observed, rollout.skill)
    with torch.no_grad():
        found = network(inputs)
    assert found.shape == (game.NUM_ENVS, 5, game.AGENTS)
    assert found.std() > 0.1
    for env, t in ((0, 0), (1, 3), (3, 4)):
        state, team = inputs.state[env, t], torch.eye(2)[inputs.team[env, t]]
        for number in range(game.AGENTS):
            if critic == "team":
                row = torch.cat([network.layers(state), team])
            else:
                view = inputs.frames["observation", "view"][env, t, number]
                own = torch.eye(3)[inputs.skill[env, t, number]]
                row = network.layers(torch.cat([state, team, view, own]))
            assert found[env, t, number].item() == pytest.approx(network.last(row).item(), abs=1e-5)


def explained(make_agent, critic):
    """Return the explained variance of rewards that depend on each agent's observation."""
    free = [f"agent.intrinsic.{name}=0" for name in ("lambda_team", "lambda_indiv")]
    agent = make_agent(
        *("agent.ablation=no_high", "agent.discount=0", f"agent.actor.critic={critic}", *free),
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


# ---- the memory ------------------------------------------------------------------------------


def test_a_rollout_is_replayed_in_chunks(make_agent):
    agent = make_agent(*GRU)
    torch.nn.init.normal_(agent.policy.actor.out.weight)  # so that the hidden state matters
    _, root = game.collect(agent.policy, 5, ending=0.0)
    rollout, _ = game.collect(agent.policy, 20, root=root, ending=0.15)
    assert rollout["next", "done"][:, :-1].any()
    steps = team_rollout(rollout)
    low = agent.low.prepare(steps, torch.randn_like(steps.skill, dtype=torch.float32))
    assert low.replay_error.item() <= 1e-5
    assert low.actions.hidden.abs().amax(-1).max() > 0.01
    # The control: another hidden state gives other log-probs.
    for spoiled in (
        low.actions._replace(hidden=torch.zeros_like(low.actions.hidden)),
        low.actions._replace(fresh=torch.zeros_like(low.actions.fresh)),
    ):
        again = agent.low._distribution(spoiled).log_prob(spoiled.action)
        assert (again - spoiled.log_prob).abs().max() > 1e-3


def test_the_memory_learns(make_agent):
    agent = make_agent(*GRU)
    before = agent.policy.actor.memory.cell.weight_hh.detach().clone()
    root = None
    for _ in range(2):
        rollout, root = game.collect(agent.policy, 20, root=root)
        metrics = agent.update(rollout)
        assert metrics["low/sync/replay_error"] <= 1e-5
    assert not torch.equal(before, agent.policy.actor.memory.cell.weight_hh)


def test_rollouts_that_do_not_split_into_chunks_are_refused(make_agent):
    agent = make_agent(*GRU)
    rollout, _ = game.collect(agent.policy, 12)
    with pytest.raises(
        ValueError, match=r"rollout_steps = 12 is not a multiple of agent\.actor\.chunk"
    ):
        agent.update(rollout)
