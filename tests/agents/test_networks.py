"""Normaliser, encoders and what they refuse."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Bounded, MultiCategorical
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl.agents.networks import Normaliser, action_choices, leaf_sizes, resolve_precision
from tests.agents.conftest import CHOICES, NUM_ENVS, spec


def test_normaliser_equals_the_moments_of_all_rows():
    normaliser = Normaliser(3)
    scale, shift = torch.tensor([1.0, 50.0, 0.01]), torch.tensor([0.0, -300.0, 2.0])
    batches = [torch.randn(n, 3) * scale * (n % 7 + 1) + shift for n in (64, 3, 1000, 1, 250)]
    for batch in batches:
        normaliser.update(batch)
    rows = torch.cat(batches).double()
    torch.testing.assert_close(normaliser.mean.double(), rows.mean(0), rtol=1e-4, atol=1e-5)
    variance = rows.var(0, unbiased=False)
    torch.testing.assert_close(normaliser.variance.double(), variance, rtol=1e-4, atol=0.0)
    assert normaliser.count.item() == 64 + 3 + 1000 + 1 + 250


def test_first_batch_replaces_the_initial_variance():
    normaliser = Normaliser(1)
    normaliser.update(torch.tensor([[10.0], [30.0]]))
    assert (normaliser.mean.item(), normaliser.variance.item()) == (20.0, 100.0)
    scaled = normaliser(torch.tensor([[30.0], [1e6], [-1e6]]))
    assert scaled.flatten().tolist() == pytest.approx([10.0 / (100.0001**0.5), 10.0, -10.0])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_rows_that_are_not_finite_do_not_count(bad):
    normaliser = Normaliser(2)
    normaliser.update(torch.tensor([[1.0, 4.0], [bad, 1.0], [3.0, 8.0]]))
    assert normaliser.mean.tolist() == [2.0, 6.0]
    assert normaliser.variance.tolist() == [1.0, 4.0]
    assert normaliser.count.item() == 2.0


def test_a_batch_without_a_finite_row_changes_nothing():
    fresh, experienced = Normaliser(1), Normaliser(1)
    experienced.update(torch.tensor([[10.0], [30.0]]))
    for normaliser, moments in ((fresh, (0.0, 1.0, 0.0)), (experienced, (20.0, 100.0, 2.0))):
        normaliser.update(torch.full((5, 1), float("nan")))
        found = normaliser.mean.item(), normaliser.variance.item(), normaliser.count.item()
        assert found == moments


def test_an_action_without_a_head_is_refused_in_one_sentence():
    with pytest.raises(
        ValueError, match=r"action is Bounded.*; expected MultiCategorical"
    ) as refused:
        action_choices(Bounded(-1.0, 1.0, (NUM_ENVS, 2)))
    assert "\n" not in str(refused.value)


def test_a_matrix_leaf_is_refused_in_one_sentence(make_agent):
    with pytest.raises(
        ValueError, match=r"leaf 'image' has shape \(5, 7\); expected a vector"
    ) as refused:
        make_agent(observation_spec=spec(ego=(3,), image=(5, 7)))
    assert "\n" not in str(refused.value)


def test_sizes_and_choices_come_from_the_specs():
    assert leaf_sizes(spec(wide=(12,), ego=(3,))) == {"ego": 3, "wide": 12}
    assert action_choices(MultiCategorical([5, 2, 7], shape=(NUM_ENVS, 3))) == [5, 2, 7]


def test_all_leaves_enter_the_network(make_agent):
    agent = make_agent(observation_spec=spec(ego=(3,), map=(2,)))
    frames = TensorDict({"observation": {"ego": torch.randn(9, 3), "map": torch.randn(9, 2)}}, [9])
    value = agent.critic(frames)["state_value"].clone()
    for leaf in ("ego", "map"):
        other = frames.clone()
        other["observation", leaf] += 1.0
        assert (agent.critic(other)["state_value"] != value).all()


def test_unknown_activation_is_refused(make_agent):
    with pytest.raises(ValueError, match=r"agent\.activation = 'gelu'; expected one of relu, tanh"):
        make_agent(activation="gelu")


@pytest.mark.parametrize("native", [True, False])
def test_precision_follows_the_hardware(monkeypatch, native):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native)
    for device in ("cpu", "cuda"):
        assert resolve_precision("auto", torch.device(device)) == ("bf16" if native else "fp32")
        for fixed in ("fp32", "bf16"):
            assert resolve_precision(fixed, torch.device(device)) == fixed
    assert resolve_precision("auto", torch.device("meta")) == "fp32"


def test_unknown_precision_is_refused():
    with pytest.raises(
        ValueError, match=r"agent\.precision = 'fp16'; expected one of fp32, bf16, auto"
    ):
        resolve_precision("fp16", torch.device("cpu"))


def test_half_precision_is_used_inside_and_float32_comes_out(make_agent):
    half, full = make_agent(precision="bf16"), make_agent(precision="fp32")
    full.load_state_dict(half.state_dict())
    frames = TensorDict({"observation": {"ego": torch.randn(50, 3)}}, [50])
    rough, exact = (agent.critic(frames.clone())["state_value"] for agent in (half, full))
    assert rough.dtype == torch.float32
    assert half.critic.trunk.layers[0].weight.dtype == torch.float32
    assert not torch.equal(rough, exact)
    torch.testing.assert_close(rough, exact, atol=0.05, rtol=0.05)  # 8 bits of mantissa


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


def test_policy_samples_unless_told_to_take_the_mode(make_agent):
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
