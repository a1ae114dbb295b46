"""Distributions against enumerations, integrals and formulas in float64."""

import itertools
import math

import pytest
import torch

from navrl.agents.networks.distributions import BoundedAndBinary, MaskedMultiCategorical, ScaledBeta

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


def test_a_head_without_an_allowed_choice_is_free():
    logits = torch.tensor([[math.log(1.0), math.log(2.0), math.log(1.0), 0.0, 0.0]])
    mask = torch.tensor([[False, False, False, True, False]])
    dist = MaskedMultiCategorical(logits, mask, (3, 2))
    assert dist.log_prob(torch.tensor([[1, 0]])).exp().item() == pytest.approx(0.5)
    assert dist.entropy().item() == pytest.approx(1.5 * math.log(2.0))  # 1/4, 1/2, 1/4
    assert dist.sample()[0, 1].item() == 0


LOW, HIGH = torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([1.0, 1.0, 7.0])  # of bounded columns


def scaled_beta(alpha, beta, dtype=torch.float64):
    """One row or several of three columns over [-1, 1], [0, 1] and [2, 7]."""
    alpha, beta = (torch.as_tensor(x, dtype=dtype) for x in (alpha, beta))
    return ScaledBeta(alpha, beta, LOW.to(dtype), HIGH.to(dtype))


def density(x, alpha, beta, low, high):
    """Compute the density of one column in the units of the action."""
    share = (x - low) / (high - low)
    log_norm = math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)
    log_kernel = (alpha - 1.0) * math.log(share) + (beta - 1.0) * math.log(1.0 - share)
    return math.exp(log_kernel - log_norm) / (high - low)


def midpoints(low, high, cells=20_000):
    """Middles and width of equal cells, to integrate over."""
    width = (high - low) / cells
    return [low + (i + 0.5) * width for i in range(cells)], width


SHAPES = ([1.5, 2.0, 30.0], [4.0, 2.0, 12.0])  # alphas, betas


def test_beta_density_is_the_formula_and_integrates_to_one_over_the_interval():
    dist = scaled_beta(*SHAPES)
    action = torch.tensor([-0.4, 0.9, 5.5], dtype=torch.float64)
    columns = list(zip(*SHAPES, LOW.tolist(), HIGH.tolist(), strict=True))
    expected = math.prod(density(x, *c) for x, c in zip(action.tolist(), columns, strict=True))
    assert dist.log_prob(action).exp().item() == pytest.approx(expected, rel=1e-12)
    for alpha, beta, low, high in columns:
        points, width = midpoints(low, high)
        column = ScaledBeta(
            *(torch.tensor([x], dtype=torch.float64) for x in (alpha, beta, low, high))
        )
        mass = column.log_prob(torch.tensor(points, dtype=torch.float64).unsqueeze(-1)).exp().sum()
        assert mass.item() * width == pytest.approx(1.0, abs=1e-5)


def test_beta_entropy_is_the_integral():
    total = 0.0
    for alpha, beta, low, high in zip(*SHAPES, LOW.tolist(), HIGH.tolist(), strict=True):
        points, width = midpoints(low, high)
        densities = [density(x, alpha, beta, low, high) for x in points]
        total -= width * sum(p * math.log(p) for p in densities if p > 0.0)
    assert scaled_beta(*SHAPES).entropy().item() == pytest.approx(total, abs=1e-4)


def test_beta_samples_have_the_moments_of_the_formula():
    draws, (alpha, beta) = 50_000, (torch.tensor(x, dtype=torch.float64) for x in SHAPES)
    sample = scaled_beta(alpha.expand(draws, 3), beta.expand(draws, 3), torch.float32).sample()
    total, width = alpha + beta, (HIGH - LOW).double()
    mean = LOW.double() + width * alpha / total
    variance = width**2 * alpha * beta / (total**2 * (total + 1.0))
    assert sample.dtype == torch.float32
    assert ((sample.double().mean(0) - mean).abs() < 4.0 * (variance / draws).sqrt()).all()
    torch.testing.assert_close(sample.double().var(0), variance, rtol=0.05, atol=0.0)


@pytest.mark.parametrize("concentration", [1.0, 1.0 + 1e-6, 50.0, 1e4])
def test_beta_samples_keep_off_the_edges_where_log_prob_is_finite(concentration):
    for lean in ([1.0] * 3, [concentration] * 3):  # in the middle, and at the lower edge
        alpha = torch.tensor(lean).expand(20_000, 3)
        dist = scaled_beta(alpha, torch.full_like(alpha, concentration), torch.float32)
        sample = dist.sample()
        assert ((sample > LOW) & (sample < HIGH)).all()
        for value in (sample, LOW.expand(20_000, 3), HIGH.expand(20_000, 3)):
            assert dist.log_prob(value).isfinite().all()


def test_beta_decides_for_its_mean_without_chance():
    # alpha / (alpha + beta) of the width; the mode of the last column would be its lower edge.
    dist = scaled_beta([3.0, 1.0, 1.0], [1.0, 3.0, 1.0 + 1e-9])
    assert dist.deterministic_sample.tolist() == pytest.approx([0.5, 0.25, 4.5])


def bounded_and_binary(mask, logits=(0.0, 1.0, 2.0, -1.0), rows=1):
    """Three bounded columns, then two binary ones."""
    bounded = scaled_beta(*(torch.tensor(x).expand(rows, 3) for x in SHAPES), torch.float32)
    logits, mask = (torch.tensor(x).expand(rows, 4) for x in (logits, mask))
    return BoundedAndBinary(bounded, MaskedMultiCategorical(logits, mask, (2, 2)))


def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


def test_bounded_and_binary_columns_multiply():
    dist = bounded_and_binary([True] * 4)
    bounded = [-0.4, 0.9, 5.5]
    probabilities = [sigmoid(1.0), sigmoid(-3.0)]  # of 1 over 0, from the difference of logits
    expected = math.prod(
        density(x, *column)
        for x, column in zip(
            bounded, zip(*SHAPES, LOW.tolist(), HIGH.tolist(), strict=True), strict=True
        )
    )
    for switches in itertools.product((0, 1), repeat=2):
        chance = math.prod(
            p if on else 1.0 - p for p, on in zip(probabilities, switches, strict=True)
        )
        action = torch.tensor([[*bounded, *map(float, switches)]])
        assert dist.log_prob(action).exp().item() == pytest.approx(expected * chance, rel=1e-4)
    coins = -sum(q * math.log(q) for p in probabilities for q in (p, 1.0 - p))
    betas = scaled_beta(*SHAPES).entropy().item()
    assert dist.entropy().item() == pytest.approx(betas + coins, rel=1e-4)
    assert dist.deterministic_sample[0, 3:].tolist() == [1.0, 0.0]
    assert (dist.event_shape, dist.batch_shape) == ((5,), (1,))


@pytest.mark.parametrize(
    ("allowed", "values"),
    [
        ((True, False), {0.0}),
        ((False, True), {1.0}),
        ((True, True), {0.0, 1.0}),
        ((False, False), {0.0, 1.0}),
    ],
)
def test_a_masked_value_of_a_binary_column_is_impossible(allowed, values):
    dist = bounded_and_binary([*allowed, True, True], rows=2000)
    sample = dist.sample()
    assert sample.shape == (2000, 5)
    assert set(sample[:, 3].tolist()) == values
    assert set(sample[:, 4].tolist()) == {0.0, 1.0}
    for value in {0.0, 1.0} - values:
        sample[:, 3] = value
        assert dist.log_prob(sample).exp().max() == 0.0
    assert set(dist.deterministic_sample[:, 3].tolist()) <= values


def test_quantiles_of_choices_are_those_of_the_cumulated_probabilities():
    logits = torch.tensor([0.25, 0.5, 0.25, 0.9, 0.1]).log()
    mask = torch.tensor([True, True, True, True, False])
    for share, expected in ((0.0, 0), (0.24, 0), (0.26, 1), (0.74, 1), (0.76, 2), (1 - 2**-24, 2)):
        dist = MaskedMultiCategorical(logits.expand(1, 5), mask.expand(1, 5), (3, 2))
        assert dist.icdf(torch.full((1, 2), share)).tolist() == [[expected, 0]]


@pytest.mark.parametrize(
    ("alpha", "beta", "cumulated"),
    [
        (1.0, 1.0, lambda x: x),
        (5.0, 1.0, lambda x: x**5),
        (1.0, 40.0, lambda x: 1.0 - (1.0 - x) ** 40),
        (2.0, 2.0, lambda x: 3.0 * x**2 - 2.0 * x**3),
        (3.0, 2.0, lambda x: 4.0 * x**3 - 3.0 * x**4),
    ],
)
def test_quantiles_of_the_beta_invert_its_integral(alpha, beta, cumulated):
    low, high = -2.0, 4.0
    shares = torch.linspace(0.001, 0.999, 999).unsqueeze(-1)
    ones = torch.ones_like(shares)
    dist = ScaledBeta(alpha * ones, beta * ones, torch.tensor([low]), torch.tensor([high]))
    x = (dist.icdf(shares).double() - low) / (high - low)
    assert (x.diff(dim=0) > 0.0).all()
    torch.testing.assert_close(cumulated(x), shares.double(), atol=4e-4, rtol=0.0)
