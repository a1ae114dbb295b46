"""Networks of teams (agent=mappo, agent=ippo): a central critic, agent ids, one actor for each agent."""

from types import SimpleNamespace

import pytest
import torch

from navrl.agents.core.team import TeamOptions, as_one_agent, joint_observation
from navrl.collectors.sync import SyncCollector
from navrl.envs.combat.opponents.frozen import PolicyAdapter
from tests.agents.squad import (
    AGENTS,
    EGO,
    FEATURES,
    MATES,
    NUM_ENVS,
    STEPS,
    Squad,
    make_team_rollout,
    seen_by,
)

MAPPO = {"value_normalisation": "ema", "value_clip": 0.2, "huber_delta": 10.0}
VARIANTS = [
    TeamOptions(critic=critic, share_actor=shared, agent_id=known)
    for critic in ("own", "central", "both")
    for shared in (True, False)
    for known in (True, False)
]


@pytest.fixture
def make_team(make_squad_agent):
    """make_team(critic="central", share_actor=False, ...) -> a small agent for a squad."""

    def make(*, critic="own", share_actor=True, agent_id=False, **options):
        team = TeamOptions(critic=critic, share_actor=share_actor, agent_id=agent_id)
        return make_squad_agent(team=team, **{**MAPPO, **options})

    return make


def rows(agent, rollout):
    """The frames of one agent that an update learns from."""
    informed = agent.policy.with_inputs(agent.critic.with_inputs(rollout))
    return as_one_agent(informed)


def parameters(module):
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


# ---- the critic of the team ------------------------------------------------------------------


def test_agents_of_a_team_have_the_same_value_and_teams_have_not(make_team):
    agent = make_team(critic="central", mortal=False)
    rollout = make_team_rollout(agent, mortal=False)
    values = agent.values(rows(agent, rollout)[0]).view(NUM_ENVS, AGENTS, STEPS)
    torch.testing.assert_close(values, values[:, :1].expand_as(values), rtol=0.0, atol=1e-6)
    assert values[:, 0].std() > 0.1
    batch = agent.advantages(*rows(agent, rollout))
    advantages = batch["advantage"].view(NUM_ENVS, AGENTS, STEPS)
    shared = advantages[:, :1].expand_as(advantages)
    torch.testing.assert_close(advantages, shared, rtol=0.0, atol=1e-5)
    assert advantages[:, 0].std() > 0.1


def test_a_critic_of_team_and_own_view_has_one_value_for_each_agent(make_team):
    """And it still depends on the observations of its mates."""
    agent = make_team(critic="both", mortal=False)
    rollout = make_team_rollout(agent, mortal=False)
    before = agent.values(rows(agent, rollout)[0]).view(NUM_ENVS, AGENTS, STEPS)
    assert ((before[:, 0] - before[:, 1]).abs() > 1e-5).all()
    rollout["agents", "observation", "mates"][0, 2, 1] += 1.0
    rollout["agents", "observation", "mates_mask"][0, 2, 1] = True
    after = agent.values(rows(agent, rollout)[0]).view(NUM_ENVS, AGENTS, STEPS)
    change = (before - after).abs()
    assert (change[0, :, 2] > 1e-5).all()
    assert (change > 1e-5).sum() == AGENTS


def test_a_critic_with_its_own_view_reads_no_agent_id(make_team):
    """Agents that see the same, in a team that sees the same, expect the same."""
    agent = make_team(critic="both", mortal=False)
    rollout = make_team_rollout(agent, mortal=False)
    for frames in (rollout, rollout["next"]):
        for name, leaf in frames["agents", "observation"].items():
            leaf.copy_(leaf[:, :, :1].expand_as(leaf))
            assert name in {"ego", "mates", "mates_mask"}
    values = agent.values(rows(agent, rollout)[0]).view(NUM_ENVS, AGENTS, STEPS)
    torch.testing.assert_close(values, values[:, :1].expand_as(values), rtol=0.0, atol=1e-6)


def test_agents_with_rewards_of_their_own_have_values_of_their_own(make_team):
    agent = make_team(critic="central", mortal=False)
    rollout = make_team_rollout(agent, mortal=False, own_reward=True)
    values = agent.values(rows(agent, rollout)[0]).view(NUM_ENVS, AGENTS, STEPS)
    assert ((values[:, 0] - values[:, 1]).abs() > 1e-5).all()


def test_joint_observation_is_a_row_by_agents_without_the_absent_and_the_dead():
    alive = torch.tensor([[[True], [False]]])
    group = seen_by((1, 2), alive)
    group["observation", "mates_mask"][0, 0] = torch.tensor([True, False, True, False])
    group["observation", "mates"][0, 0, 1] = torch.nan
    group["observation", "ego"][0, 1] = torch.nan
    (row,) = joint_observation(group).tolist()
    ego, mates = (group["observation", leaf][0, 0] for leaf in ("ego", "mates"))
    none = [0.0] * FEATURES
    living = [
        *ego.tolist(),
        *mates[0].tolist(),
        *none,
        *mates[2].tolist(),
        *none,
        *(1.0, 0.0, 1.0, 0.0),
        1.0,
    ]
    assert len(living) == EGO + MATES * FEATURES + MATES + 1
    assert row == [*living, *[0.0] * len(living)]


def test_a_state_comes_before_observations(make_team):
    """With a state in the specs nothing else counts: other observations, the same value."""
    agent = make_team(critic="central", mortal=False)
    rollout = make_team_rollout(agent, mortal=False)
    state = torch.randn(NUM_ENVS, STEPS, 7)
    for frames in (rollout, rollout["next"]):
        frames["state"] = state
    inputs = agent.critic.with_inputs(rollout)["agents", "central", "team"]
    assert torch.equal(inputs, state.unsqueeze(2).expand(NUM_ENVS, STEPS, AGENTS, 7))


# ---- actors ----------------------------------------------------------------------------------


def outputs(agent, frames):
    with torch.no_grad():
        return agent.policy.trunk(agent.policy.with_agent_ids(frames))


@pytest.mark.parametrize("share_actor", [True, False])
def test_agents_that_see_the_same_act_alike_unless_they_know_who_they_are(make_team, share_actor):
    frames = seen_by((NUM_ENVS, 1)).expand(NUM_ENVS, AGENTS)
    alike = outputs(make_team(), frames)
    torch.testing.assert_close(alike[:, 0], alike[:, 1], rtol=0.0, atol=1e-7)
    found = outputs(make_team(share_actor=share_actor, agent_id=share_actor), frames)
    assert ((found[:, 0] - found[:, 1]).abs().amax(-1) > 1e-5).all()


def test_separate_actors_share_no_parameter_and_learn_from_their_own_rows(make_team):
    agent = make_team(share_actor=False, entropy_coef=0.0)
    actors = agent.policy.trunk.actors
    owned = [set(map(id, actor.parameters())) for actor in actors]
    assert len(set.union(*owned)) == sum(map(len, owned))
    frames = agent.policy.with_agent_ids(seen_by((NUM_ENVS, AGENTS)))
    agent.policy.trunk(frames)[:, 1].sum().backward()
    moved = [
        any(p.grad is not None and p.grad.abs().sum() > 0.0 for p in actor.parameters())
        for actor in actors
    ]
    assert moved == [False, True, False]


# ---- updates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("team", VARIANTS, ids=str)
def test_every_variant_replays_its_rollouts_and_moves_every_parameter(make_team, team):
    torch.manual_seed(1)
    agent = make_team(**team._asdict())
    env = Squad(NUM_ENVS, AGENTS)
    collector = SyncCollector(env=env, policy=agent.policy, rollout_steps=STEPS, total_frames=72)
    known = set(map(id, [*agent.policy.parameters(), *agent.critic.parameters()]))
    optimised = [id(p) for group in agent.optimizer.adam.param_groups for p in group["params"]]
    assert sorted(optimised) == sorted(known)
    before = parameters(agent.policy), parameters(agent.critic)
    for rollout in collector:
        keys = set(rollout.keys(include_nested=True))
        metrics = agent.update(rollout)
        assert set(rollout.keys(include_nested=True)) == keys
        assert metrics["sync/replay_error"] <= 1e-5
        assert metrics["loss/skipped_steps"] == 0.0
    after = parameters(agent.policy), parameters(agent.critic)
    for old, new in zip(before, after, strict=True):
        assert [name for name in old if torch.equal(old[name], new[name])] == []


@pytest.mark.parametrize("team", VARIANTS[4:], ids=str)
def test_a_weight_that_changes_while_a_rollout_is_collected_is_noticed(make_team, team):
    agent = make_team(**team._asdict(), replay_tolerance=1e-5)
    rollout = make_team_rollout(agent)
    with torch.no_grad():
        agent.policy.trunk.get_parameter(last_bias(agent)).add_(1.0)
    with pytest.raises(RuntimeError, match="not collected by this policy"):
        agent.update(rollout)


def last_bias(agent):
    return [name for name in parameters(agent.policy.trunk) if name.endswith("bias")][-1]


# ---- refusals --------------------------------------------------------------------------------


def test_what_cannot_be_is_refused_in_one_sentence(make_agent, make_team):
    central = TeamOptions(critic="central", share_actor=True, agent_id=False)
    with pytest.raises(ValueError, match=r"expected a team.*use agent=ppo"):
        make_agent(team=central)
    with pytest.raises(
        ValueError, match=r"agent\.team\.critic = mine; expected one of own, central, both"
    ):
        make_team(critic="mine")
    with pytest.raises(ValueError, match=r"use agent\.network\.architecture=separate"):
        make_team(critic="central", architecture="navrl")


# ---- the other side of a fight ---------------------------------------------------------------


def test_a_policy_in_a_seat_knows_which_agent_it_flies(monkeypatch):
    observation = SimpleNamespace(rows=lambda params, state, me: {"ego": torch.zeros(1, 2)})
    action = SimpleNamespace(
        team_size=2, mask=lambda fire, alive: torch.ones(1, 2, dtype=torch.bool)
    )
    seat = PolicyAdapter(observation=observation, action=action, compile_mode="off")
    monkeypatch.setattr(
        "navrl.envs.combat.opponents.frozen.can_fire", lambda params, state: [None] * 4
    )
    monkeypatch.setattr(
        "navrl.envs.combat.opponents.frozen.sides", lambda params, alive: [None, None]
    )
    state = SimpleNamespace(aircraft=SimpleNamespace(alive=None))
    for me, flags in enumerate(([1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0])):
        frames = seat.observe(SimpleNamespace(teams=(0, 0, 1, 1)), state, me)
        assert frames["observation", "agent_id"].tolist() == [flags, flags]
