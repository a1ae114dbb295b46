"""Defects of the published update that ours does not have; every number differs between the two."""

import pytest
import torch
from torch.nn import functional

from navrl.agents.core.objective import value_error
from navrl.agents.ppo.agent import MINIBATCH_KEYS
from tests.agents.conftest import loss_of, one_step
from tests.agents.drone import disturbed, make_drone_rollout

PARTS = ("policy", "critic")


def copies(agent):
    """Copy every parameter by its name; shared layers are the policy's."""
    found = {
        parameter: name
        for part in reversed(PARTS)
        for name, parameter in getattr(agent, part).named_parameters(prefix=part)
    }
    return {name: parameter.detach().clone() for parameter, name in found.items()}


def moved(agent, start):
    """Return the change of every parameter."""
    return {name: now - start[name] for name, now in copies(agent).items()}


def minibatch(agent):
    """One minibatch that holds a whole rollout of the agent."""
    batch = agent.advantages(make_drone_rollout(agent)).detach()
    return batch.select(*MINIBATCH_KEYS, strict=False).reshape(-1)


def test_the_critics_own_layers_learn_at_the_critics_rate(make_navrl_agent):
    """The first step of Adam is as long as the learning rate in every coordinate with a gradient."""
    agent = make_navrl_agent(learning_rate=5e-4, critic_learning_rate=0.02)
    start = copies(agent)
    one_step(agent, minibatch(agent))
    steps = {name: step.abs().max().item() for name, step in moved(agent, start).items()}
    own = [steps.pop(f"critic.trunk.last.{kind}") for kind in ("weight", "bias")]
    assert own == pytest.approx([0.02] * 2, rel=1e-2)
    assert len(steps) == 28  # shared layers and the policy's own
    assert list(steps.values()) == pytest.approx([5e-4] * 28, rel=1e-2)


def test_both_rates_fall_alike(make_navrl_agent):
    agent = make_navrl_agent(critic_learning_rate=2e-3, final_learning_rate=2.5e-4)
    rates = []
    for _ in range(3):
        agent.update(make_drone_rollout(agent))
        rates.append([group["lr"] for group in agent.optimizer.adam.param_groups])
    expected = [
        (5e-4 * share, 2e-3 * share) for share in (0.95, 0.90, 0.85)
    ]  # to 1/2 in ten iterations
    assert rates == [pytest.approx(pair) for pair in expected]


def test_the_clipped_value_loss_is_pessimistic_about_every_frame():
    """Both values began at 0, the targets are 1, and a value may gain by moving 0.1.

    value  its own error        error where it may go    the larger
      1    0                    0.9^2 / 2 = 0.405        0.405
     -1    2^2 / 2 = 2          1.1^2 / 2 = 0.605        2
    The mean is 1.2025; the larger of the means, (0 + 2) / 2 and (0.405 + 0.605) / 2, was 1.
    """
    value = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    errors = value_error(
        value, torch.ones(2, 1), torch.zeros(2, 1), value_clip=0.1, huber_delta=10.0
    )
    assert errors.flatten().tolist() == pytest.approx([0.405, 2.0])
    errors.mean().backward()
    assert value.grad.flatten().tolist() == [0.0, -1.0]  # the first has gained all it may


def test_clipping_compares_values_in_the_units_of_now(make_navrl_agent):
    """Rewards grow tenfold between two rollouts, the critic has not moved: no value has gained anything.

    In the original the statistics move alone, so that the same weights give other values.
    """
    agent = make_navrl_agent()
    agent.update(make_drone_rollout(agent))
    scale, last = agent.value_scale, agent.critic.trunk.last
    batch = agent.advantages(make_drone_rollout(agent, reward=44.0)).detach()
    seen, collected = batch.select("observation"), batch["state_value"].clone()
    before = agent.critic(seen.copy())["state_value"].detach()
    torch.testing.assert_close(scale.values(before), collected, rtol=1e-4, atol=1e-3)
    scale.learn(batch, last, torch.tensor(False))
    now = agent.critic(seen.copy())["state_value"].detach()
    torch.testing.assert_close(now, batch["state_value"], rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(scale.values(now), collected, rtol=1e-4, atol=1e-2)
    assert (scale.values(before) - collected).abs().min() > 10.0  # as published


def test_errors_beyond_delta_count_linearly():
    value, zeros = torch.tensor([4.0, 30.0]), torch.zeros(2)
    errors = value_error(value, zeros, zeros, value_clip=None, huber_delta=10.0)
    assert errors.tolist() == [8.0, 10.0 * (30.0 - 5.0)]  # e^2 / 2, then delta (e - delta / 2)
    squared = value_error(value, zeros, zeros, value_clip=None, huber_delta=None)
    assert squared.tolist() == [16.0, 900.0]


def test_the_loss_uses_them_per_frame(make_navrl_agent):
    agent = make_navrl_agent(huber_delta=0.5, value_clip=0.05)
    flat = minibatch(agent)
    agent.value_scale.learn(flat, agent.critic.trunk.last, torch.tensor(False))
    disturbed(agent, 0.05)
    value = agent.critic(flat.select("observation"))["state_value"].double()
    before, target = flat["state_value"].double(), flat["value_target"].double()
    total = 0.0
    for now, then, goal in zip(value.flatten(), before.flatten(), target.flatten(), strict=True):
        held = then + (now - then).clamp(-0.05, 0.05)
        pair = [functional.huber_loss(each, goal, delta=0.5) for each in (now, held)]
        total += max(pair).item()
    assert loss_of(agent, flat)[1]["loss/critic"].item() == pytest.approx(
        total / flat.numel(), rel=1e-4
    )
    assert ((value - before).abs() > 0.05).any()


def test_the_weight_of_the_policy_loss_counts(make_navrl_agent):
    """Ten times the weight moves what only the policy has ten times as far; the critic as before."""
    options = {"adam_epsilon": 1e6, "learning_rate": 1e6, "critic_learning_rate": 1e6}
    options |= {"final_learning_rate": 1e6, "max_grad_norm": 1e9, "entropy_coef": 0.0}
    agents = [make_navrl_agent(**options, policy_coef=weight) for weight in (0.3, 3.0)]
    agents[1].load_state_dict(agents[0].state_dict())
    flat, lengths = minibatch(agents[0]), []
    for agent in agents:
        start = copies(agent)
        one_step(agent, flat)
        steps = moved(agent, start)
        lengths.append([steps[f"{part}.trunk.last.weight"].norm().item() for part in PARTS])
    (policy, critic), (other_policy, other_critic) = lengths
    assert other_policy == pytest.approx(10.0 * policy, rel=1e-2)
    assert other_critic == pytest.approx(critic, rel=1e-2)


@pytest.mark.parametrize("edge", [-1.0, 1.0])
def test_an_action_on_the_edge_has_a_density(make_navrl_agent, edge):
    """Rounded to bfloat16, samples do reach the edges, where a plain Beta's log-density is -inf."""
    agent = disturbed(make_navrl_agent(), 0.3)
    rollout = make_drone_rollout(agent)
    assert (rollout["action"].abs() < 1.0).all()
    dist = agent.policy.get_dist(rollout)
    assert dist.log_prob(torch.full_like(rollout["action"], edge)).isfinite().all()
    plain = torch.distributions.Beta(dist._alpha, dist._beta)
    assert plain.log_prob(torch.full_like(rollout["action"], 0.5 * (edge + 1.0))).isinf().all()
