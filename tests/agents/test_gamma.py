"""log(gamma) and digamma against torch's in float64."""

import pytest
import torch

from navrl.agents.gamma import digamma, lgamma

X = torch.logspace(-4, 5, 2001, dtype=torch.float64)
REFERENCES = {lgamma: torch.lgamma, digamma: torch.digamma}


def relative(found, reference):
    return ((found.double() - reference) / reference.abs().clamp_min(1.0)).abs().max().item()


@pytest.mark.parametrize("function", REFERENCES)
def test_float64_is_exact_to_twelve_digits(function):
    assert relative(function(X), REFERENCES[function](X)) < 1e-11


@pytest.mark.parametrize("function", REFERENCES)
def test_float32_is_exact_to_rounding(function):
    assert relative(function(X.float()), REFERENCES[function](X.float().double())) < 3e-6


@pytest.mark.parametrize("order", [0, 1])
def test_gradients_are_the_derivatives(order):
    x = X.clone().requires_grad_()
    (found,) = torch.autograd.grad([lgamma, digamma][order](x).sum(), x)
    assert relative(found, torch.polygamma(order, X)) < 1e-9
