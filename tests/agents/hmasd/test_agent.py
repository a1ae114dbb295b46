"""The whole agent: on-policy or not at all, every parameter learns, and states go on where they were."""

import copy
from typing import NamedTuple

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded

from navrl.agents.core.gradients import fit
from navrl.agents.hmasd.options import ABLATIONS
from tests.agents.hmasd import game

STEPS = 12


def weights(agent):
    modules = {"policy": agent.policy, "critic": agent.critic, "disc": agent.discriminators}
    return {
        f"{part}.{name}": tensor.detach().clone()
        for part, module in modules.items()
        for name, tensor in module.named_parameters()
    }


def changed(agent, before):
    return {
        name for name, tensor in weights(agent).items() if not torch.equal(tensor, before[name])
    }


# ---- learning --------------------------------------------------------------------------------


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
    before, root = weights(agent), None
    for _ in range(2):  # layers behind a skill nobody had in the first round learn in the second
        rollout, root = game.collect(agent.policy, 40, root=root)
        agent.update(rollout)
    kept = weights(agent).keys() - changed(agent, before)
    idle = {"no_team": ["disc.team."], "no_indi": ["decoder.0.own.", "decoder.0.cross."]}
    # With one skill there is nothing to tell apart, with one choice nothing before it to attend to.
    found = {place for name in kept for place in idle.get(ablation, []) if place in name}
    assert [name for name in kept if not any(place in name for place in found)] == []
    assert found == set(idle.get(ablation, []))


@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("num_agents", [1, 2, 4])
@pytest.mark.parametrize("interval", [2, 500])
def test_teams_actions_and_intervals_of_any_size(make_agent, discrete, num_agents, interval):
    agent = make_agent(f"agent.k={interval}", num_agents=num_agents, discrete=discrete)
    root = None
    for number in range(2):
        rollout, root = game.collect(agent.policy, STEPS, num_agents=num_agents, root=root)
        metrics = agent.update(rollout)
        assert metrics["sync/policy_version"] == number + 1
        assert all(value == value and abs(value) < 1e6 for value in metrics.values())
        assert max(metrics["low/sync/replay_error"], metrics["high/sync/replay_error"]) <= 1e-5


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
    rollout, _ = game.collect(agent.policy, STEPS)
    agent.update(rollout)


def test_the_coordinator_waits_while_all_decisions_are_paid_alike(make_agent):
    agent = make_agent("agent.k=3")
    before = weights(agent)
    nothing = torch.zeros(game.NUM_ENVS, 1)
    rollout, root = game.collect(agent.policy, STEPS, reward=nothing)
    assert agent.update(rollout)["high/skipped"] == 1.0
    moved = {name for name in changed(agent, before) if name.startswith("policy.coordinator.")}
    # The value layer follows the scale of values, so that every value stays what it was.
    assert moved <= {"policy.coordinator.value.3.weight", "policy.coordinator.value.3.bias"}
    rollout, _ = game.collect(agent.policy, STEPS, root=root)
    assert agent.update(rollout)["high/skipped"] == 0.0
    assert "policy.coordinator.logits.3.weight" in changed(agent, before)


def test_gradients_gathered_in_pieces_make_the_same_steps(make_agent):
    whole, pieces = (make_agent("agent.k=3", f"agent.ppo.accumulate={n}") for n in (1, 5))
    pieces.load_state_dict(copy.deepcopy(whole.state_dict()))
    rollout, _ = game.collect(whole.policy, STEPS)
    found = [agent.update(rollout) for agent in (whole, pieces)]
    for name, tensor in weights(whole).items():
        torch.testing.assert_close(weights(pieces)[name], tensor, rtol=0.0, atol=2e-5)
    assert found[1] == pytest.approx(found[0], abs=1e-3)


def test_minibatches_are_all_rows_once_in_a_pass(make_agent):
    class Rows(NamedTuple):
        number: torch.Tensor

    optimizer = make_agent().low.optimizers["actor"]
    seen = []

    def loss(batch):
        seen.append(batch.number.tolist())
        return 0.0 * optimizer.parameters[0].sum(), batch.number.float().mean().reshape(1)

    options = {"num_epochs": 2, "num_minibatches": 3, "parts": 1, "stopped": torch.tensor(True)}
    means = fit(optimizer, loss, Rows(torch.arange(9)), **options)
    assert [len(rows) for rows in seen] == [3] * 6
    for number in range(2):
        rows = [row for part in seen[3 * number : 3 * number + 3] for row in part]
        assert sorted(rows) == list(range(9)) != rows
    assert means[-1] == 4.0


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


# ---- on-policy or not at all -----------------------------------------------------------------


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
        before = weights(agent)
        if number == 0:
            with pytest.warns(UserWarning, match=r"'next/reward' of the rollout in env rows 0"):
                agent.update(rollout)
        else:
            with pytest.raises(RuntimeError, match="in 2 iterations in a row"):
                agent.update(rollout)
        assert all(tensor.isfinite().all() for tensor in weights(agent).values())
        assert not {name for name in changed(agent, before) if "policy.actor" in name}


# ---- going on --------------------------------------------------------------------------------


def test_a_loaded_agent_goes_on_bit_for_bit(make_agent):
    agent, other = (make_agent("agent.k=3") for _ in range(2))
    rollout, root = game.collect(agent.policy, STEPS)
    agent.update(rollout)
    other.load_state_dict(copy.deepcopy(agent.state_dict()))
    state = torch.get_rng_state()
    found = []
    for each in (agent, other):
        torch.set_rng_state(state)
        rollout, _ = game.collect(each.policy, STEPS, root=root.clone())
        found.append((each.update(rollout), weights(each)))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(tensor, found[1][1][name]) for name, tensor in found[0][1].items())


# ---- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("agent.k=0", r"agent\.k = 0; expected a whole number, 1"),
        (
            "agent.n_team=0",
            r"agent\.n_team = 0; expected a whole number from 1 to 1000; change agent\.n_team",
        ),
        ("agent.n_indiv=1001", r"agent\.n_indiv = 1001; expected a whole number from 1 to 1000"),
        ("agent.ablation=no", r"agent\.ablation = no; expected one of none, no_team"),
        ("agent.coordinator.heads=3", r"agent\.coordinator\.heads = 3; expected a divisor"),
        ("agent.coordinator.partial=x", r"agent\.coordinator\.partial = x; expected one of"),
        ("agent.actor.skill_injection=x", r"agent\.actor\.skill_injection = x; expected"),
        ("agent.ppo.gae_lambda=2", r"agent\.ppo\.gae_lambda = 2(\.0)?; expected a finite number"),
        ("agent.actor.skill_init=x", r"agent\.actor\.skill_init = x; expected one of pairs"),
        ("agent.actor.critic=own", r"agent\.actor\.critic = own; expected one of team, both"),
        ("agent.discriminator.num_epochs=0", r"agent\.discriminator\.num_epochs = 0; expected"),
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


def test_a_policy_that_is_told_nothing_of_before_begins_anew(make_agent):
    agent = make_agent("agent.k=3")
    told = agent.policy(game.seen(3, 2))
    assert isinstance(told, TensorDict)
    assert told["skill", "reason"].squeeze(-1).tolist() == [2, 2, 2]
    assert (told["next", "skill", "timer"] == 1).all()
