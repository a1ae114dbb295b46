"""The loss over the living: its means, its gradients, and its compiled form."""

import pytest
import torch
from torchrl.objectives import ClipPPOLoss

from navrl.agents.core.objective import explained_variance
from navrl.agents.core.team import as_one_agent
from navrl.agents.ppo.agent import MINIBATCH_KEYS
from tests.agents.conftest import loss_of, make_rollout
from tests.agents.squad import make_team_rollout


@pytest.fixture
def agent_and_batch(make_squad_agent):
    """An agent somewhere else than at ratio 1, on both sides of the clip, and (N, T) frames to learn from."""
    agent = make_squad_agent()
    batch = agent.advantages(*as_one_agent(make_team_rollout(agent)))
    with torch.no_grad():
        for parameter in agent.parameters:
            parameter.add_(0.2 * torch.randn_like(parameter))
    return agent, batch.detach()


def test_loss_metrics_and_gradients_are_those_of_the_living_alone(agent_and_batch):
    agent, batch = agent_and_batch
    flat = batch.select(*MINIBATCH_KEYS, strict=False).reshape(-1)
    living = flat[flat["alive"].squeeze(-1)].exclude("alive")
    assert 0 < len(living) < len(flat)
    (loss, found), (expected_loss, expected) = loss_of(agent, flat), loss_of(agent, living)
    for name, value in found.items():
        assert value.item() == pytest.approx(expected[name].item(), rel=1e-4, abs=1e-6), name
    assert found["policy/clip_fraction"].item() > 0.2
    pairs = (torch.autograd.grad(total, agent.parameters) for total in (loss, expected_loss))
    for gradient, reference in zip(*pairs, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-3, atol=1e-5)


def test_the_explained_variance_is_that_of_the_living_alone(agent_and_batch):
    whole = agent_and_batch[1].reshape(-1)
    alive = whole["alive"]
    value, target = whole["state_value"], whole["value_target"]
    found = explained_variance(value, target, alive).item()
    assert found == pytest.approx(explained_variance(value[alive], target[alive]).item(), rel=1e-4)
    assert found != pytest.approx(explained_variance(value, target).item())


@pytest.mark.slow
def test_compiled_gradients_are_those_of_the_eager_loss(make_squad_agent, agent_and_batch):
    plain, batch = agent_and_batch
    flat = batch.select(*MINIBATCH_KEYS, strict=False).reshape(-1)
    agent = make_squad_agent(compile_mode="on")  # raises where a graph would break
    agent.load_state_dict(plain.state_dict())
    for index in (torch.randperm(flat.numel()), torch.arange(5)):  # and again for another size
        found = agent.steps.gradients.of(flat)(index)
        loss, metrics = plain.steps.gradients.loss(flat[index])
        torch.testing.assert_close(found.metrics, metrics, rtol=1e-4, atol=1e-6)
        references = torch.autograd.grad(loss, plain.parameters)
        for gradient, reference in zip(found.of_parameters, references, strict=True):
            torch.testing.assert_close(gradient, reference, rtol=1e-3, atol=1e-5)
        squares = sum(reference.double().square().sum().item() for reference in references)
        assert found.norm.item() == pytest.approx(squares**0.5, rel=1e-4)


def test_the_loss_is_that_of_torchrl(make_agent):
    agent = make_agent()
    batch = agent.advantages(make_rollout(agent)).reshape(-1).detach()
    with torch.no_grad():
        for parameter in agent.parameters:
            parameter.add_(0.2 * torch.randn_like(parameter))
    agent.policy.dist_sample_keys, agent.policy.log_prob_keys = ["action"], ["action_log_prob"]
    stock = ClipPPOLoss(
        agent.policy,
        agent.critic,
        functional=False,
        clip_epsilon=0.2,
        entropy_coeff=0.01,
        critic_coeff=0.5,
        loss_critic_type="l2",
        normalize_advantage=True,
    )(batch)
    loss, metrics = loss_of(agent, batch)
    expected = stock["loss_objective"] + stock["loss_critic"] + stock["loss_entropy"]
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert metrics["policy/kl"].item() == pytest.approx(stock["kl_approx"].item(), rel=1e-5)
    assert metrics["policy/clip_fraction"].item() == stock["clip_fraction"].item()
