"""The whole agent: on-policy or not at all, every parameter learns, and states continue bit for bit."""

import copy

import pytest
import torch
from torchrl.data import Composite, Unbounded

from navrl.agents.hmasd.options import ABLATIONS
from tests.agents.hmasd import game

STEPS = 12


@pytest.mark.parametrize("ablation", ABLATIONS)
def test_every_parameter_is_in_one_optimiser_and_learns(make_agent, ablation):
    agent = make_agent("agent.k=3", f"agent.ablation={ablation}")
    owned = [
        id(parameter)
        for optimizer in agent.optimizers.values()
        for group in optimizer.adam.param_groups
        for parameter in group["params"]
    ]
    assert len(owned) == len(set(owned))
    assert set(owned) == {id(parameter) for parameter in agent.parameters}
    for parameter in agent.policy.coordinator.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # attention begins so small that it learns slowly
    before, root = game.weights(agent), None
    for _ in range(2):  # layers behind a skill nobody had in the first round learn in the second
        rollout, root = game.collect(agent.policy, 40, root=root)
        agent.update(rollout)
    kept = game.weights(agent).keys() - game.changed(agent, before)
    idle = {"no_team": ["disc.team."], "no_indi": ["decoder.0.own.", "decoder.0.cross."]}
    # With one skill there is nothing to tell apart, with one choice nothing before it to attend to.
    found = {place for name in kept for place in idle.get(ablation, []) if place in name}
    assert [name for name in kept if not any(place in name for place in found)] == []
    assert found == set(idle.get(ablation, []))


@pytest.mark.parametrize(
    ("interval", "num_agents", "discrete"),
    [(2, 1, True), (2, 4, False), (500, 2, False), (500, 4, True)],
)
def test_teams_actions_and_intervals_of_any_size(make_agent, discrete, num_agents, interval):
    agent = make_agent(f"agent.k={interval}", num_agents=num_agents, discrete=discrete)
    root = None
    for number in range(2):
        rollout, root = game.collect(agent.policy, STEPS, num_agents=num_agents, root=root)
        metrics = agent.update(rollout)
        assert metrics["sync/policy_version"] == number + 1
        assert all(value == value and abs(value) < 1e6 for value in metrics.values())
        assert max(metrics["low/sync/replay_error"], metrics["high/sync/replay_error"]) <= 1e-5


def test_gradients_gathered_in_pieces_make_the_same_steps(make_agent):
    whole, pieces = (make_agent("agent.k=3", f"agent.ppo.accumulate={n}") for n in (1, 5))
    pieces.load_state_dict(copy.deepcopy(whole.state_dict()))
    rollout, _ = game.collect(whole.policy, STEPS)
    found = [agent.update(rollout) for agent in (whole, pieces)]
    for name, tensor in game.weights(whole).items():
        torch.testing.assert_close(game.weights(pieces)[name], tensor, rtol=0.0, atol=2e-5)
    assert found[1] == pytest.approx(found[0], abs=1e-3)


def test_learning_rates_and_entropy_coefficients_fall(make_agent):
    agent = make_agent("agent.k=3", num_iterations=4)
    rates, shares, root = [], [], None
    for _ in range(5):
        rollout, root = game.collect(agent.policy, STEPS, root=root)
        metrics = agent.update(rollout)
        rates.append(metrics["policy/learning_rate"])
        shares.append(metrics["policy/entropy_share"])
    assert shares == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert rates == pytest.approx([5e-4 * (1 - 0.95 * done / 4) for done in range(5)])


@pytest.mark.parametrize("part", ["actor.out", "coordinator.logits.3"])
def test_a_rollout_of_other_weights_is_refused_and_changes_nothing(make_agent, part):
    agent = make_agent("agent.k=3")
    rollout, _ = game.collect(agent.policy, STEPS)
    torch.nn.init.normal_(agent.policy.get_submodule(part).weight)
    before = copy.deepcopy(agent.state_dict())
    with pytest.raises(RuntimeError, match="was not collected by this policy"):
        agent.update(rollout)
    for name, tensor in agent.state_dict()["policy"].items():
        assert torch.equal(tensor, before["policy"][name]), name
    for name in ("critic", "discriminators"):
        for key, tensor in agent.state_dict()[name].items():
            assert torch.equal(tensor, before[name][key]), key


def test_a_rollout_of_another_version_is_refused(make_agent):
    agent = make_agent("agent.k=3")
    rollout, _ = game.collect(agent.policy, STEPS)
    agent.update(rollout)
    with pytest.raises(RuntimeError, match="carries policy version 0; expected 1"):
        agent.update(rollout)


def test_steps_with_skills_of_another_version_are_refused(make_agent):
    agent = make_agent("agent.k=3")
    rollout, _ = game.collect(agent.policy, STEPS)
    rollout["skill", "stamp"] = rollout["skill", "stamp"].clone()
    rollout["skill", "stamp"][1, 2:5] = 0
    with pytest.raises(RuntimeError, match="and 3 steps have skills of another version"):
        agent.update(rollout)


def test_steps_that_are_not_finite_are_left_out(make_agent):
    agent = make_agent("agent.k=3", "agent.max_skipped_updates=2")
    for number in range(2):
        rollout, _ = game.collect(agent.policy, STEPS)
        rollout["next", "reward"][0, 3] = torch.nan
        before = game.weights(agent)
        if number == 0:
            with pytest.warns(UserWarning, match=r"'next/reward' of the rollout in env rows 0"):
                agent.update(rollout)
        else:
            with pytest.raises(RuntimeError, match="in 2 iterations in a row"):
                agent.update(rollout)
        assert all(tensor.isfinite().all() for tensor in game.weights(agent).values())
        assert not {name for name in game.changed(agent, before) if "policy.actor" in name}


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("agent.k=0", r"agent\.k = 0; expected a whole number, 1"),
        (
            "agent.n_team=0",
            r"agent\.n_team = 0; expected a whole number from 1 to 1000; change agent\.n_team",
        ),
        ("agent.ablation=no", r"agent\.ablation = no; expected one of none, no_team"),
        ("agent.coordinator.heads=3", r"agent\.coordinator\.heads = 3; expected a divisor"),
        ("agent.actor.skill_init=x", r"agent\.actor\.skill_init = x; expected one of pairs"),
        ("agent.actor.critic=own", r"agent\.actor\.critic = own; expected one of team, both"),
    ],
)
def test_numbers_that_make_no_sense_are_one_sentence(make_agent, override, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_agent(override)


def test_envs_of_one_agent_are_refused(make_agent):
    _, action = game.specs()
    alone = Composite(observation=Composite(ego=Unbounded((4, 3)), shape=(4,)), shape=(4,))
    with pytest.raises(ValueError, match="the env has one agent; agent=hmasd expected a team"):
        make_agent(specs=(alone, action))


def without_the_dead(rollout):
    """The same rollout, in which the dead do and see anything."""
    other = rollout.clone()
    for frames, changed_leaves in ((other, ["action"]), (other["next"], ["observation"])):
        dead = ~frames["agents", "alive"].squeeze(-1)
        for name in changed_leaves:
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
    # Without a coordinator, because that reads the state, and so who is dead.
    agent = make_agent("agent.ablation=no_high", "agent.intrinsic.center=true", *memory)
    rollout = for_good(game.with_deaths(game.collect(agent.policy, STEPS)[0]))
    other = copy.deepcopy(agent)
    assert other.update(without_the_dead(rollout)) == agent.update(rollout)
    assert all(
        torch.equal(tensor, game.weights(other)[name])
        for name, tensor in game.weights(agent).items()
    )
