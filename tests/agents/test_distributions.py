"""MaskedMultiCategorical against the enumeration of all its actions in float64."""

import itertools
import math

import pytest
import torch

from navrl.agents.distributions import MaskedMultiCategorical

CHOICES = (3, 2, 4)
ACTIONS = list(itertools.product(*(range(n) for n in CHOICES)))


def random_heads(rows=50):
    logits = 3.0 * torch.randn(rows, sum(CHOICES), dtype=torch.float64)
    mask = torch.rand(rows, sum(CHOICES)) < 0.6
    mask[:, [0, 3, 5]] = True  # one allowed choice in every head
    return logits, mask


def enumerated(logits, mask):
    """{action: probability} of one row, by softmax over the allowed choices of every head."""
    heads, first = [], 0
    for count in CHOICES:
        weights = [math.exp(logits[first + i]) if mask[first + i] else 0.0 for i in range(count)]
        heads.append([weight / sum(weights) for weight in weights])
        first += count
    return {
        action: math.prod(head[i] for head, i in zip(heads, action, strict=True))
        for action in ACTIONS
    }


def test_log_prob_and_entropy_equal_the_enumeration():
    logits, mask = random_heads()
    dist = MaskedMultiCategorical(logits, mask, CHOICES)
    found = torch.stack([dist.log_prob(torch.tensor([a] * 50)) for a in ACTIONS], 1).exp()
    for row in range(50):
        table = enumerated(logits[row].tolist(), mask[row].tolist())
        assert found[row].tolist() == pytest.approx(list(table.values()), abs=1e-12)
        entropy = -sum(p * math.log(p) for p in table.values() if p > 0.0)
        assert dist.entropy()[row].item() == pytest.approx(entropy, abs=1e-12)
        assert table[tuple(dist.mode[row].tolist())] == pytest.approx(max(table.values()))
    assert torch.equal(dist.deterministic_sample, dist.mode)


def test_masked_choices_are_impossible_and_never_sampled():
    logits = torch.tensor([0.0, 50.0, 1.0, 0.0, 50.0]).expand(10_000, 5)
    mask = torch.tensor([True, False, True, True, False]).expand(10_000, 5)
    dist = MaskedMultiCategorical(logits, mask, (3, 2))
    sample = dist.sample()
    assert set(sample[:, 0].tolist()) == {0, 2}
    assert set(sample[:, 1].tolist()) == {0}
    for forbidden in ([1, 0], [0, 1]):
        assert dist.log_prob(torch.tensor([forbidden] * 10_000)).exp().max() == 0.0


def test_sampling_frequencies_match_the_probabilities():
    draws = 20_000
    logits = torch.tensor([[0.0, 1.0, -1.0, 0.5, 0.0, 0.0, 1.0, 9.0, -0.5]])
    mask = torch.arange(9).unsqueeze(0) != 7
    dist = MaskedMultiCategorical(logits.expand(draws, -1), mask.expand(draws, -1), CHOICES)
    drawn = [tuple(action) for action in dist.sample().tolist()]
    table = {a: p for a, p in enumerated(logits[0].tolist(), mask[0].tolist()).items() if p > 0.0}
    assert set(drawn) <= set(table)
    common = {action: p for action, p in table.items() if p * draws >= 5.0}
    statistic = sum((drawn.count(a) - p * draws) ** 2 / (p * draws) for a, p in common.items())
    freedom = len(common)
    assert freedom == 3 * 2 * 3
    assert statistic < freedom + 4.0 * math.sqrt(2.0 * freedom)  # four sigma of chi square


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_and_reach_allowed_choices_only(dtype):
    logits, mask = random_heads()
    logits = logits.to(dtype).requires_grad_()
    dist = MaskedMultiCategorical(logits, mask, CHOICES)
    (dist.entropy().sum() + dist.log_prob(dist.sample()).sum()).backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[~mask] == 0.0).all()
    assert (logits.grad != 0.0).any()


def test_entropy_gradient_equals_finite_differences():
    logits, mask = random_heads(3)

    def entropy(values):
        return MaskedMultiCategorical(values, mask, CHOICES).entropy()

    assert torch.autograd.gradcheck(entropy, logits.requires_grad_())


def test_a_head_without_an_allowed_choice_is_free():
    logits = torch.tensor([[math.log(1.0), math.log(2.0), math.log(1.0), 0.0, 0.0]])
    mask = torch.tensor([[False, False, False, True, False]])
    dist = MaskedMultiCategorical(logits, mask, (3, 2))
    assert dist.log_prob(torch.tensor([[1, 0]])).exp().item() == pytest.approx(0.5)
    assert dist.entropy().item() == pytest.approx(1.5 * math.log(2.0))  # 1/4, 1/2, 1/4
    assert dist.sample()[0, 1].item() == 0


def test_rows_of_any_shape_and_no_sample_shape():
    dist = MaskedMultiCategorical(torch.zeros(4, 6, 5), torch.ones(4, 6, 5).bool(), (3, 2))
    assert dist.sample().shape == (4, 6, 2)
    assert dist.log_prob(dist.sample()).shape == dist.entropy().shape == (4, 6)
    torch.testing.assert_close(dist.entropy(), torch.full((4, 6), math.log(6.0)))
    with pytest.raises(ValueError, match=r"sample_shape = \(2,\)"):
        dist.sample(torch.Size([2]))
