"""The network with published weights against a restatement in float64."""

import pytest
import torch

from navrl.commands import import_navrl
from tests.agents.drone import seen_by
from tests.published import downloaded, make_agent, published_weights, restated


@pytest.mark.parametrize("weights", [published_weights, downloaded])
def test_the_network_computes_what_is_published(weights):
    weights, agent, frames = weights(), make_agent(), seen_by(400)
    import_navrl.install(weights, agent)
    alpha, beta, value = restated(weights, frames)
    with torch.no_grad():
        dist = agent.policy.get_dist(frames)
        values = agent.value_scale.values(agent.critic(frames)["state_value"])
    action = 2.0 * alpha / (alpha + beta) - 1.0
    assert action.std() > 0.05
    torch.testing.assert_close(dist.deterministic_sample.double(), action, rtol=0.0, atol=1e-5)
    torch.testing.assert_close(dist._alpha.double(), alpha, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(dist._beta.double(), beta, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(values.double(), value, rtol=1e-5, atol=1e-3)


def test_names_and_their_order_are_the_published_ones():
    found, ours = downloaded(), import_navrl.published(make_agent())
    assert list(found) == list(ours)
    import_navrl.check_published(found, ours, "the file")
