"""Networks by specs: their inputs, their initial weights, and the errors they raise."""

import copy

import pytest
import torch
from tensordict import TensorDict
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl.agents.networks.actor_critic import resolve_precision
from navrl.envs.combat.actions import Continuous
from tests.agents.conftest import CHOICES, entities, spec


def test_an_env_without_a_mask_allows_everything(make_agent):
    policy = make_agent(observation_spec=spec(masked=False)).policy
    assert policy.in_keys == [("observation", "ego")]
    rows = {"observation": {"ego": torch.randn(500, 3)}}
    allowed = {**rows, "action_mask": torch.ones(500, sum(CHOICES), dtype=torch.bool)}
    dist, expected = (policy.get_dist(TensorDict(frames, [500])) for frames in (rows, allowed))
    assert torch.equal(dist.entropy(), expected.entropy())


def test_entities_enter_beside_vectors_and_the_absent_do_not(make_agent):
    agent = make_agent(observation_spec=spec(ego=(3,), **entities("others", 4, 2)))
    present = torch.rand(9, 4) < 0.5
    present[:, 0], present[:, 1] = True, False
    rows = {"ego": torch.randn(9, 3), "others": torch.randn(9, 4, 2), "others_mask": present}
    frames = TensorDict({"observation": rows}, [9])
    value = agent.critic(frames)["state_value"].clone()
    for entity, changes in ((0, True), (1, False)):
        other = frames.clone()
        other["observation", "others"][:, entity] += 1.0
        assert ((agent.critic(other)["state_value"] != value) == changes).all()
    names = {name.rpartition(".")[0] for name in agent.policy.state_dict()}
    assert "trunk.encoder.encoders.others.layers.0" in names
    assert ("observation", "others_mask") in agent.policy.in_keys


def test_normalisers_count_the_living_and_present_entities(make_agent):
    trunk = make_agent(observation_spec=spec(ego=(1,), **entities("others", 2, 1))).policy.trunk
    frames = {
        "observation": {
            "ego": torch.tensor([[1.0], [5.0], [90.0]]),
            "others": torch.tensor([[[2.0], [70.0]], [[4.0], [6.0]], [[80.0], [80.0]]]),
            "others_mask": torch.tensor([[True, False], [True, True], [True, True]]),
        },
        "alive": torch.tensor([[True], [True], [False]]),
    }
    trunk.update_normalisers(TensorDict(frames, [3]))
    ego, others = trunk.encoder.normalisers["ego"], trunk.encoder.normalisers["others"]
    assert (ego.mean.item(), ego.variance.item(), ego.count.item()) == (3.0, 4.0, 2.0)
    assert (others.mean.item(), others.count.item()) == (4.0, 3.0)
    assert others.variance.item() == pytest.approx(8.0 / 3.0)  # of 2, 4 and 6


@pytest.mark.parametrize("native", [True, False])
def test_precision_follows_the_hardware(monkeypatch, native):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native)
    for device in ("cpu", "cuda"):
        assert resolve_precision("auto", torch.device(device)) == ("bf16" if native else "fp32")
        for fixed in ("fp32", "bf16"):
            assert resolve_precision(fixed, torch.device(device)) == fixed
    assert resolve_precision("auto", torch.device("meta")) == "fp32"


@pytest.mark.parametrize("leaf", ["ego", "others"])
def test_half_precision_is_used_inside_and_float32_comes_out(make_agent, leaf):
    leaves = spec(ego=(3,)) if leaf == "ego" else spec(**entities("others", 4, 2))
    half, full = (make_agent(observation_spec=leaves, precision=p) for p in ("bf16", "fp32"))
    full.load_state_dict(half.state_dict())
    rows = {"ego": torch.randn(50, 3), "others": torch.randn(50, 4, 2)}
    rows = {leaf: rows[leaf], "others_mask": torch.rand(50, 4) < 0.5}
    frames = TensorDict({"observation": rows}, [50])
    rough, exact = (agent.critic(frames.clone())["state_value"] for agent in (half, full))
    assert rough.dtype == torch.float32
    assert half.critic.trunk.layers[0].weight.dtype == torch.float32
    assert not torch.equal(rough, exact)
    torch.testing.assert_close(rough, exact, atol=0.05, rtol=0.05)  # 8 bits of mantissa


@pytest.mark.parametrize(
    ("option", "value", "known"),
    [("activation", "gelu", "relu, tanh"), ("precision", "fp16", "fp32, bf16, auto")],
)
def test_unknown_choices_are_refused(make_agent, option, value, known):
    with pytest.raises(ValueError, match=rf"{option} = {value}; expected one of {known}"):
        make_agent(**{option: value})


def test_layers_begin_orthogonal_with_their_gains(make_agent):
    agent = make_agent(hidden_sizes=[16, 8])
    for network, last_gain in ((agent.policy, 0.01), (agent.critic, 1.0)):
        layers = [m for m in network.trunk.layers if isinstance(m, torch.nn.Linear)]
        gains = [2.0**0.5, 2.0**0.5, last_gain]
        for layer, gain in zip(layers, gains, strict=True):
            weight = layer.weight.detach().double()
            weight = weight if weight.shape[0] <= weight.shape[1] else weight.T
            expected = gain**2 * torch.eye(len(weight), dtype=torch.float64)
            torch.testing.assert_close(weight @ weight.T, expected, rtol=0.0, atol=1e-6 * gain)
            assert (layer.bias == 0.0).all()


def test_policy_samples_unless_play_is_deterministic(make_agent):
    policy = make_agent().policy
    frames = TensorDict(
        {
            "observation": {"ego": torch.zeros(500, 3)},
            "action_mask": torch.ones(500, sum(CHOICES), dtype=torch.bool),
        },
        [500],
    )
    sampled = policy(frames.clone())["action"]
    assert len(sampled.unique(dim=0)) == 6  # 500 draws of 6 about equally likely actions
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        assert len(policy(frames.clone())["action"].unique(dim=0)) == 1


@pytest.mark.commands
def test_a_compiled_policy_samples_what_it_would_eager(make_agent):
    _sample_alike(*_compiled_and_eager(make_agent))


def test_a_compiled_policy_and_its_copies_sample_as_the_eager_one(make_agent, traced_only):
    compiled, eager, frames = _compiled_and_eager(make_agent)
    copies = [copy.deepcopy(compiled)]  # before the graph is made, and after it
    _sample_alike(compiled, eager, frames)
    copies.append(copy.deepcopy(compiled))
    torch.nn.init.normal_(eager.trunk.last.weight)
    for policy in copies:
        _sample_alike(policy, eager, frames)


def _compiled_and_eager(make_agent):
    action = Continuous(team_size=1).spec((9,), "cpu")  # two Betas, and a choice with a mask
    compiled = make_agent(action_spec=action, compile_mode="on").policy
    mask = torch.tensor([[True, True], [True, False], [False, True]]).repeat(3, 1)
    frames = TensorDict({"observation": {"ego": torch.randn(9, 3)}, "action_mask": mask}, [9])
    return compiled, make_agent(action_spec=action).policy, frames


def _sample_alike(policy, eager, frames):
    """With the weights of the eager one, and the same random numbers."""
    policy.load_state_dict(eager.state_dict())
    acted = []
    for each in (policy, eager):
        torch.manual_seed(1)
        with torch.no_grad():
            acted.append(each(frames.copy()))
    found, expected = acted
    for key in ("action", "action_log_prob"):
        torch.testing.assert_close(found[key], expected[key])
