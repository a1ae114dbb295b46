"""The published network: what flows through it, how it begins, and that its features are computed once."""

import math

import pytest
import torch

from navrl.agents.ppo.agent import MINIBATCH_KEYS
from tests.agents.conftest import configuration, entities, one_step, spec
from tests.agents.drone import disturbed, drone_specs, make_drone_rollout, seen_by


def flat_batch(agent):
    """Minibatch rows away from ratio 1."""
    batch = agent.advantages(make_drone_rollout(agent)).detach()
    disturbed(agent, 0.02)
    return batch.select(*MINIBATCH_KEYS, strict=False).reshape(-1)


def test_it_has_as_many_parameters_as_published(make_navrl_agent):
    assert sum(p.numel() for p in make_navrl_agent().parameters) == 177_383


def test_it_begins_centred_and_wide(make_navrl_agent):
    policy = make_navrl_agent().policy
    dist = policy.get_dist(seen_by(200))
    # softplus(0) = ln 2: alpha = beta = 1.693, whose deviation over [-1, 1] is 0.955 / 2
    assert dist.deterministic_sample.abs().max().item() < 0.02
    concentration = 1.0 + math.log(2.0)
    deviation = 2.0 * math.sqrt(0.25 / (2.0 * concentration + 1.0))
    assert 2.0 * deviation == pytest.approx(0.955, abs=1e-3)
    assert dist._alpha.mean().item() == pytest.approx(concentration, abs=0.01)
    samples = torch.cat([dist.sample() for _ in range(50)])
    assert samples.std().item() == pytest.approx(deviation, rel=0.03)


def test_metres_enter_as_they_are_whatever_the_spec_says(make_navrl_agent):
    assert make_navrl_agent().policy.trunk.features.scan._scale == 1.0


def test_what_is_absent_counts_as_zeros(make_navrl_agent):
    agent, frames = disturbed(make_navrl_agent()), seen_by(30)
    spoilt = frames.clone()
    absent = ~frames["observation", "obstacles_mask"]
    spoilt["observation", "obstacles"][absent] = float("nan")
    for network in (agent.policy.trunk, agent.critic.trunk):
        assert torch.equal(network(spoilt), network(frames))


def test_features_are_computed_once_per_gradient_step(make_navrl_agent):
    agent = make_navrl_agent()
    flat, calls = flat_batch(agent), []
    agent.policy.trunk.features.register_forward_hook(lambda *_: calls.append(None))
    one_step(agent, flat)
    assert len(calls) == 1


def test_sharing_changes_neither_a_loss_nor_a_gradient(make_navrl_agent, monkeypatch):
    agent = make_navrl_agent()
    flat, outcomes = flat_batch(agent), []
    for shared in (agent.policy.trunk.with_shared_features, lambda frames: frames):
        monkeypatch.setattr(agent.policy.trunk, "with_shared_features", shared)
        loss, metrics = agent.steps.gradients.loss(flat)
        outcomes.append([loss, metrics, *torch.autograd.grad(loss, agent.parameters)])
    for found, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert "features" not in flat


def test_features_stay_out_of_what_is_collected(make_navrl_agent):
    policy, frames = make_navrl_agent().policy, seen_by(3)
    assert set(policy(frames).keys()) == {"observation", "action", "action_log_prob"}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["cnn", "cnn_circular", "mlp"])
def test_it_learns_with_every_encoder(make_navrl_agent, kind, precision):
    agent = make_navrl_agent(lidar_encoder=kind, precision=precision, num_minibatches=4)
    before = [p.detach().clone() for p in agent.parameters]
    metrics = agent.update(make_drone_rollout(agent))
    assert metrics["loss/skipped_steps"] == 0.0
    assert metrics["sync/replay_error"] < 0.05
    moved = [not torch.equal(a, b) for a, b in zip(agent.parameters, before, strict=True)]
    assert all(moved)


@pytest.mark.slow
def test_the_loss_compiles_whole(make_navrl_agent):
    # raises where a graph would break
    agent = make_navrl_agent(compile_mode="on")
    flat = flat_batch(agent)
    found = agent.steps.gradients.of(flat)(torch.arange(flat.numel()))
    loss, metrics = agent.steps.gradients.loss(flat)
    wanted = torch.autograd.grad(loss, agent.parameters)
    torch.testing.assert_close(found.metrics, metrics, rtol=1e-4, atol=1e-6)
    for gradient, reference in zip(found.of_parameters, wanted, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "leaves",
    [
        {"state": (8,), "lidar": (1, 36, 4)},
        {"state": (8,), **entities("obstacles", 5, 10)},
        {"state": (8,), "more": (2,), "lidar": (1, 36, 4), **entities("obstacles", 5, 10)},
    ],
)
def test_other_observations_are_refused(make_agent, leaves):
    options = {"architecture": "navrl", "action_spec": drone_specs()[1]}
    with pytest.raises(
        ValueError, match=r"expected one vector, one set of entities, one lidar"
    ) as e:
        make_agent(observation_spec=spec(**leaves), **options)
    assert "\n" not in str(e.value)


def test_other_actions_and_other_networks_are_refused(make_agent):
    observation, action = drone_specs()
    with pytest.raises(ValueError, match=r"takes CategoricalHead actions; expected .* bounded"):
        make_agent(observation_spec=observation, architecture="navrl")
    with pytest.raises(
        ValueError, match=r"agent\.network\.architecture = shared; expected one of separate, navrl"
    ):
        make_agent(observation_spec=observation, action_spec=action, architecture="shared")


def test_the_numbers_are_the_published_ones():
    shipped = configuration("ppo_navrl").agent
    agent = {**shipped, **shipped.loss, **shipped.optimizer, **shipped.network}
    published = {
        **{"learning_rate": 5e-4, "critic_learning_rate": 5e-4, "final_learning_rate": 5e-4},
        **{"clip_epsilon": 0.1, "entropy_coef": 1e-3, "num_epochs": 4, "num_minibatches": 16},
        **{"discount": 0.99, "gae_lambda": 0.95, "huber_delta": 10.0, "value_clip": 0.1},
        **{"policy_coef": 3.0, "max_grad_norm": 5.0, "value_normalisation": "ema"},
        **{"critic_coef": 1.0, "max_kl": None, "hidden_sizes": [256, 256]},
        **{"entity_sizes": [128, 64], "lidar_encoder": "cnn", "activation": "leaky_relu"},
    }
    assert {name: agent[name] for name in published} == published
