"""The logarithm of the gamma function and its derivative, as arithmetic that a compiler vectorizes.

torch's own make one call for every number, and their gradients are slower still. Stirling's series is exact
to 1e-12 from 6 on. Smaller numbers reach 6 by the functions' recurrences, in which u = x (x + 5) makes
products of three factors instead of six: (x + 1) (x + 4) = u + 4, (x + 2) (x + 3) = u + 6. Without a
compiler torch's own are faster.
"""

import math
from typing import Any

import torch
from torch import Tensor

_SHIFT = 6.0
# Of 1 / z, -1 / z^3, 1 / z^5, ... and of 1 / z^2, -1 / z^4, 1 / z^6, ...: from Bernoulli's numbers
_LGAMMA = (1 / 12, 1 / 360, 1 / 1260, 1 / 1680, 1 / 1188, 691 / 360360)
_DIGAMMA = (1 / 12, 1 / 120, 1 / 252, 1 / 240, 1 / 132, 691 / 32760)
_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


def lgamma(x: Tensor) -> Tensor:
    """Compute log(gamma(x)) for x above 0."""
    return lgamma_series(x) if torch.compiler.is_compiling() else x.lgamma()


def digamma(x: Tensor) -> Tensor:
    """Compute the derivative of lgamma for x above 0."""
    return digamma_series(x) if torch.compiler.is_compiling() else x.digamma()


def lgamma_series(x: Tensor) -> Tensor:
    """Compute lgamma by arithmetic alone."""
    z = x + _SHIFT
    inverse = 1.0 / z
    series = inverse * _alternating(inverse * inverse, _LGAMMA)
    u = x * (x + 5.0)
    # Not the logarithm of one product: x^6 is beyond float32 from a few millions on.
    product = u.log() + ((u + 4.0) * (u + 6.0)).log()
    return (z - 0.5) * z.log() - z + _HALF_LOG_TAU + series - product


def digamma_series(x: Tensor) -> Tensor:
    """Compute digamma by arithmetic alone."""
    z = x + _SHIFT
    inverse = 1.0 / z
    square = inverse * inverse
    series = square * _alternating(square, _DIGAMMA)
    u = x * (x + 5.0)
    reciprocals = 1.0 / u + 1.0 / (u + 4.0) + 1.0 / (u + 6.0)
    return z.log() - 0.5 * inverse - series - (2.0 * x + 5.0) * reciprocals


def _alternating(square: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """Compute first - square * (second - square * (third - ...))."""
    *others, last = coefficients
    total: Any = last
    for coefficient in reversed(others):
        total = coefficient - square * total
    return total
