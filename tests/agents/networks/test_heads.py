"""Heads by action spec, and what is refused."""

import math

import pytest
import torch
from torchrl.data import Bounded, Categorical, MultiCategorical, Unbounded

from navrl.agents.networks.distributions import BoundedAndBinary, MaskedMultiCategorical, ScaledBeta
from navrl.agents.networks.heads import head_for
from navrl.envs.core.specs import Hybrid
from tests.agents.conftest import NUM_ENVS

HYBRID = Hybrid([-1.0, 0.0, 0.0], [1.0, 1.0, 1.0], shape=(NUM_ENVS, 3))
BOX = Bounded(-2.0, 3.0, (NUM_ENVS, 4))
DISCRETE = MultiCategorical([5, 2, 7], shape=(NUM_ENVS, 3))


@pytest.mark.parametrize(
    ("spec", "outputs", "mask_size", "kind"),
    [
        (DISCRETE, 5 + 2 + 7, 5 + 2 + 7, MaskedMultiCategorical),
        (BOX, 2 * 4, 0, ScaledBeta),
        (HYBRID, 2 * 2 + 2, 2, BoundedAndBinary),
        (HYBRID.expand(6, NUM_ENVS, 3), 2 * 2 + 2, 2, BoundedAndBinary),
    ],
)
def test_the_spec_chooses_the_head(spec, outputs, mask_size, kind):
    head = head_for(spec)
    assert (head.outputs, head.mask_size) == (outputs, mask_size)
    mask = torch.ones(50, mask_size, dtype=torch.bool)
    dist = head(torch.randn(50, outputs), mask)
    assert type(dist) is kind
    action = dist.sample()
    assert spec[(0,) * (spec.ndim - 1)].expand(50, spec.shape[-1]).is_in(action)
    assert dist.log_prob(action).shape == dist.entropy().shape == (50,)
    assert list(head.state_dict()) == []  # a head adds nothing to checkpoints


@pytest.mark.parametrize(
    ("spec", "entropy"),
    [
        (DISCRETE, math.log(5 * 2 * 7)),
        (BOX, 4 * math.log(5.0)),
        (HYBRID, math.log(2.0) + math.log(1.0) + math.log(2.0)),
    ],
)
def test_uniform_outputs_spread_over_everything(spec, entropy):
    head = head_for(spec)
    dist = head(head.uniform, torch.ones(head.mask_size, dtype=torch.bool))
    assert dist.entropy().item() == pytest.approx(entropy, abs=1e-5)


def test_the_first_policy_is_centred_and_wide(make_agent):
    # softplus(0) = ln 2, so alpha = beta = 1.693; the last layer's gain of 0.01 adds next to nothing.
    policy = make_agent(action_spec=HYBRID).policy
    head = policy.head
    dist = head(torch.zeros(head.outputs), torch.ones(head.mask_size, dtype=torch.bool))
    assert dist.deterministic_sample[:2].tolist() == pytest.approx([0.0, 0.5])
    assert policy.trunk.layers[-1].out_features == head.outputs == 6


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (
            Unbounded((NUM_ENVS, 2)),
            "action is UnboundedContinuous; expected MultiCategorical, Bounded or",
        ),
        (Categorical(3, shape=(NUM_ENVS,)), "action is Categorical; expected MultiCategorical"),
        (Bounded(0, 3, (NUM_ENVS, 2), dtype=torch.int64), "action is BoundedDiscrete; expected"),
        (
            Bounded(-torch.inf, 1.0, (NUM_ENVS, 2)),
            r"bounds \[-inf, -inf\] and .*; expected finite ones",
        ),
    ],
)
def test_an_action_without_a_head_is_refused_in_one_sentence(spec, complaint):
    with pytest.raises(ValueError, match=complaint) as refused:
        head_for(spec)
    assert "\n" not in str(refused.value)
