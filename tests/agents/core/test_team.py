"""Teams: one policy for all agents, whose frames are rows of one agent; the dead count for nothing."""

import copy

import pytest
import torch
from tensordict import TensorDict

from navrl.agents.core.team import as_one_agent, inherited
from tests.agents.squad import AGENTS, NUM_ENVS, STEPS, make_team_rollout, seen_by


def learned(agent):
    """Copies of all that an update changes."""
    state = copy.deepcopy(agent.state_dict())
    return {**state["policy"], **{f"critic.{name}": x for name, x in state["critic"].items()}}


def updated(agent, rollout):
    """The metrics of an update with the same shuffling every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return agent.update(rollout)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    assert [name for name in found if not torch.equal(found[name], expected[name])] == []


# ---- rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("own_reward", [False, True])
def test_agents_become_rows_with_the_flags_of_their_team(make_squad_agent, own_reward):
    rollout = make_team_rollout(make_squad_agent(), own_reward=own_reward)
    rollout.names = [None, "time"]  # as collectors call it
    frames, sharing = as_one_agent(rollout)
    assert frames.shape == (NUM_ENVS * AGENTS, STEPS)
    assert sharing == (1 if own_reward else AGENTS)
    keys = [("observation", leaf) for leaf in ("ego", "mates", "mates_mask")]
    kept = [*keys, "action_mask", "action", "action_log_prob", "alive"]
    upcoming = [*keys, "alive", *(["reward"] if own_reward else [])]
    for row in range(NUM_ENVS * AGENTS):
        env, agent = divmod(row, AGENTS)
        for key in kept:
            assert torch.equal(frames[key][row], rollout["agents"][key][env, :, agent])
        for key in upcoming:
            assert torch.equal(
                frames["next"][key][row], rollout["next", "agents"][key][env, :, agent]
            )
        for key in ("done", "terminated", "truncated", *([] if own_reward else ["reward"])):
            assert torch.equal(frames["next"][key][row], rollout["next", key][env])


# ---- values of the dead ----------------------------------------------------------------------


@pytest.mark.parametrize("sharing", [1, 3])
def test_the_dead_inherit_the_mean_value_of_their_living_mates(sharing):
    value, alive = torch.randn(12, 5, 1), torch.rand(12, 5, 1) < 0.5
    found = inherited(value, alive, sharing)
    for row in range(12):
        team = range(row - row % sharing, row - row % sharing + sharing)
        for t in range(5):
            mates = [value[i, t].item() for i in team if alive[i, t]]
            mean = sum(mates) / len(mates) if mates else 0.0
            expected = value[row, t].item() if alive[row, t] else mean
            assert found[row, t].item() == pytest.approx(expected, abs=1e-6)


def one_death(agent, *, own_reward):
    """Two agents, three steps; the second one dies in the first step. Discount and lambda 1/2.

    The first feature of an observation is its value; what the dead one sees is worth 1000.
    """
    agent.critic = lambda td: td.set("state_value", td["observation", "ego"][..., :1])
    rollout = make_team_rollout(agent, 1, 3, 2)
    values = torch.tensor([[2.0, 1.0], [3.0, 1000.0], [1.0, 1000.0], [4.0, 1000.0]])
    alive = torch.tensor([[True, True], [True, False], [True, False], [True, False]])
    for part, moments in ((rollout, slice(0, 3)), (rollout["next"], slice(1, 4))):
        part["agents", "observation", "ego"][0, ..., 0] = values[moments]
        part["agents", "alive"][0, ..., 0] = alive[moments]
    rollout["next", "reward"] = torch.tensor([1.0, 0.0, 2.0]).view(1, 3, 1)
    for name in ("terminated", "truncated", "done"):
        rollout["next", name] = torch.zeros(1, 3, 1, dtype=torch.bool)
    if own_reward:
        own = torch.tensor([[1.0, -2.0], [0.0, 0.0], [2.0, 8.0]])
        rollout["next", "agents", "reward"] = own.view(1, 3, 2, 1)
    return agent.advantages(*as_one_agent(rollout))


def test_the_teams_reward_still_counts_at_the_moment_of_death(make_squad_agent):
    """Worked by hand, from the end, with delta = r + V'/2 - V and A = delta + A'/4.

    living  delta 1 + 3/2 - 2 = 1/2, 0 + 1/2 - 3 = -5/2, 2 + 4/2 - 1 = 3
            A     3, -5/2 + 3/4 = -7/4, 1/2 - 7/16 = 1/16
    dying   as its mate once it is dead; delta 1 + 3/2 - 1 = 3/2, A = 3/2 - 7/16 = 17/16
    """
    batch = one_death(make_squad_agent(discount=0.5, gae_lambda=0.5), own_reward=False)
    assert batch["advantage"][0].flatten().tolist() == [1 / 16, -7 / 4, 3.0]
    assert batch["advantage"][1].flatten().tolist() == [17 / 16, -7 / 4, 3.0]
    assert batch["value_target"][1, 0].item() == 17 / 16 + 1.0


def test_rewards_of_their_own_come_before_the_teams(make_squad_agent):
    """The dead expect nothing, but a late reward of their own still comes along the trace.

    dying   delta -2 + 0 - 1 = -3, 0, 8       A  8, 8/4 = 2, -3 + 2/4 = -5/2
    """
    batch = one_death(make_squad_agent(discount=0.5, gae_lambda=0.5), own_reward=True)
    assert batch["advantage"][0].flatten().tolist() == [1 / 16, -7 / 4, 3.0]
    assert batch["advantage"][1].flatten().tolist() == [-5 / 2, 2.0, 8.0]


# ---- updates ---------------------------------------------------------------------------------


def single_rollout(rollout):
    """The rollout of a team of one, as an env of one agent would have made it."""
    frames = rollout["agents"].squeeze(-1)
    upcoming = {**rollout["next", "agents"].squeeze(-1), **rollout["next"].exclude("agents")}
    frames = frames.exclude("next").set("next", TensorDict(upcoming, frames.shape))
    return frames.set_non_tensor("policy_version", 0)


def test_a_team_of_one_learns_as_one_agent_to_the_last_bit(make_squad_agent):
    options = {"num_minibatches": 4, "num_epochs": 2}
    team = make_squad_agent(1, mortal=False, **options)
    alone = make_squad_agent(None, **options)
    alone.load_state_dict(team.state_dict())
    rollout = make_team_rollout(team, num_agents=1, mortal=False)
    metrics = updated(team, rollout)
    assert updated(alone, single_rollout(rollout)) == metrics
    assert_same(learned(team), learned(alone))
    assert metrics["loss/grad_norm"] > 0.0


def test_the_order_of_agents_does_not_matter(make_squad_agent):
    agent, twin = make_squad_agent(), make_squad_agent()
    twin.load_state_dict(agent.state_dict())
    rollout = make_team_rollout(agent)
    permuted, order = rollout.clone(), torch.tensor([2, 0, 1])
    for part in (permuted, permuted["next"]):
        part["agents"] = part["agents"][:, :, order]
    metrics = updated(agent, rollout)
    assert updated(twin, permuted) == pytest.approx(metrics, rel=1e-4, abs=1e-6)
    # Adam makes much of gradients that are almost zero, so weights are compared by the losses they give.
    later = make_team_rollout(agent).set_non_tensor("policy_version", 1)
    assert updated(twin, later) == pytest.approx(updated(agent, later), rel=1e-3, abs=1e-4)


def test_nothing_that_the_dead_see_or_do_is_learned(make_squad_agent):
    options = {"num_minibatches": 4, "num_epochs": 2, "max_kl": 1e-4, "learning_rate": 0.01}
    agent, twin = (make_squad_agent(**options) for _ in range(2))
    twin.load_state_dict(agent.state_dict())
    rollout = make_team_rollout(agent)
    other = rollout.clone()
    for part in (other, other["next"]):
        group = part["agents"]
        alive = group["alive"]
        strange = seen_by(group.shape)
        for leaf in strange["observation"].keys():  # noqa: SIM118
            spread = alive.unsqueeze(-1) if leaf == "mates" else alive
            rows = group["observation", leaf]
            group["observation", leaf] = torch.where(spread, rows, strange["observation", leaf])
        group["action_mask"] = torch.where(alive, group["action_mask"], strange["action_mask"])
    acted = other.select(("agents", "observation"), ("agents", "action_mask")).clone()
    with torch.no_grad():
        agent.policy(acted)
    group, alive = other["agents"], other["agents", "alive"]
    group["action"] = torch.where(alive, group["action"], acted["agents", "action"])
    log_prob = acted["agents", "action_log_prob"]
    group["action_log_prob"] = torch.where(alive.squeeze(-1), group["action_log_prob"], log_prob)
    assert not torch.equal(rollout["agents", "action"], group["action"])

    metrics, others = updated(agent, rollout), updated(twin, other)
    assert metrics["policy/kl_stopped_steps"] > 0.0  # so that its decision is compared, too
    assert others == metrics
    assert_same(learned(twin), learned(agent))
    count = rollout["agents", "alive"].sum().item()
    assert (
        agent.policy.trunk.encoder.normalisers["ego"].count.item()
        == count
        < NUM_ENVS * STEPS * AGENTS
    )


@pytest.mark.parametrize(("survivors", "parts"), [(0, 1), (1, 1), (0, 2)])
def test_a_minibatch_of_hardly_anybody_breaks_nothing(make_squad_agent, survivors, parts):
    agent = make_squad_agent(accumulate=parts)
    rollout = make_team_rollout(agent)
    rollout["agents", "alive"].fill_(False)
    rollout["agents", "alive"][0, 0, :survivors] = True
    before = learned(agent)
    metrics = agent.update(rollout)
    assert metrics["loss/skipped_steps"] == 0.0
    assert (metrics["loss/grad_norm"] > 0.0) == bool(survivors)
    if not survivors:
        assert_same(learned(agent), before)
