"""log(gamma) and digamma against torch's in float64."""

import pytest
import torch

from navrl.agents.fast.log_gamma import digamma, digamma_series, lgamma, lgamma_series

X = torch.logspace(-4, 8, 2401, dtype=torch.float64)
REFERENCES = {lgamma_series: torch.lgamma, digamma_series: torch.digamma}


def relative(found, reference):
    """The largest error, relative to numbers above 1."""
    return ((found.double() - reference) / reference.abs().clamp_min(1.0)).abs().max().item()


def derivative(function, x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(function(x).sum(), x)[0]


@pytest.mark.parametrize("function", REFERENCES)
def test_float64_is_exact_to_eleven_digits(function):
    assert relative(function(X), REFERENCES[function](X)) < 1e-11


@pytest.mark.parametrize("function", REFERENCES)
def test_float32_is_exact_to_a_few_millionths_and_never_overflows(function):
    assert relative(function(X.float()), REFERENCES[function](X.float().double())) < 3e-6


@pytest.mark.parametrize("order", [0, 1])
def test_gradients_are_the_derivatives(order):
    function = [lgamma_series, digamma_series][order]
    assert relative(derivative(function, X), torch.polygamma(order, X)) < 1e-9
    single = X.float()
    assert relative(derivative(function, single), torch.polygamma(order, single.double())) < 1e-5


def test_without_a_compiler_they_are_those_of_torch():
    assert torch.equal(lgamma(X), X.lgamma())
    assert torch.equal(digamma(X), X.digamma())
