"""The loss over the living: its means, its gradients, and its compiled form."""

import pytest
import torch

from navrl.agents.core.loss import explained
from navrl.agents.core.team import as_one_agent
from navrl.agents.ppo.agent import MINIBATCH_KEYS
from navrl.agents.ppo.gradients import STEP_METRICS, MinibatchGradients
from tests.agents.squad import make_team_rollout

LOSSES = ("loss_objective", "loss_critic", "loss_entropy")
METRICS = ("entropy", "kl_approx", "clip_fraction")


@pytest.fixture
def agent_and_batch(make_squad_agent):
    """An agent somewhere else than at ratio 1, on both sides of the clip, and (N, T) frames to learn from."""
    agent = make_squad_agent()
    batch = agent._with_advantages(*as_one_agent(make_team_rollout(agent)))
    with torch.no_grad():
        for parameter in agent.parameters:
            parameter.add_(0.2 * torch.randn_like(parameter))
    return agent, batch.detach()


def gradients(agent, out):
    return torch.autograd.grad(sum(out[name] for name in LOSSES), agent.parameters)


def assert_close(agent, found, expected):
    for name in (*LOSSES, *METRICS):
        assert found[name].item() == pytest.approx(expected[name].item(), rel=1e-4, abs=1e-6), name
    pairs = zip(gradients(agent, found), gradients(agent, expected), strict=True)
    for gradient, reference in pairs:
        torch.testing.assert_close(gradient, reference, rtol=1e-3, atol=1e-5)


def test_loss_metrics_and_gradients_are_those_of_the_living_alone(agent_and_batch):
    agent, batch = agent_and_batch
    flat = batch.select(*MINIBATCH_KEYS, strict=False).reshape(-1)
    living = flat[flat["alive"].squeeze(-1)].exclude("alive")
    assert 0 < len(living) < len(flat)
    found, expected = agent.loss(flat), agent.loss(living)
    assert_close(agent, found, expected)
    assert found["clip_fraction"].item() > 0.2


def test_the_variance_that_is_explained_is_that_of_the_living_alone(agent_and_batch):
    whole = agent_and_batch[1].reshape(-1)
    alone = whole[whole["alive"].squeeze(-1)].exclude("alive")
    assert explained(whole).item() == pytest.approx(explained(alone).item(), rel=1e-4)
    assert explained(whole).item() != pytest.approx(explained(whole.exclude("alive")).item())


@pytest.mark.slow
def test_compiled_gradients_are_those_of_the_eager_loss(agent_and_batch):
    agent, batch = agent_and_batch
    flat = batch.select(*MINIBATCH_KEYS, strict=False).reshape(-1)
    compiled = MinibatchGradients(
        agent.loss, agent.parameters, 1.0, "on"
    )  # raises where a graph would break
    for index in (torch.randperm(flat.numel()), torch.arange(5)):  # and again for another size
        found, expected = compiled.of(flat)(index), agent.loss(flat[index])
        for name, value in zip(STEP_METRICS, found.metrics, strict=True):
            assert value.item() == pytest.approx(expected[name].item(), rel=1e-4, abs=1e-6), name
        references = gradients(agent, expected)
        for gradient, reference in zip(found.of_parameters, references, strict=True):
            torch.testing.assert_close(gradient, reference, rtol=1e-3, atol=1e-5)
        squares = sum(reference.double().square().sum().item() for reference in references)
        assert found.norm.item() == pytest.approx(squares**0.5, rel=1e-4)
