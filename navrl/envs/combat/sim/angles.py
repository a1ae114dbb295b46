"""The angle of a direction from its cosine and sine, in arithmetic alone.

atan2 would do, but its bits depend on the batch size, and env i has to be the same in any batch.
"""

import math

import torch
from torch import Tensor

# Abramowitz and Stegun 4.4.49: atan(x) / x for 0 <= x <= 1 in powers of x^2, within 2e-8.
_SERIES = (
    *(1.0, -0.3333314528, 0.1999355085, -0.1420889944, 0.1065626393),
    *(-0.0752896400, 0.0429096138, -0.0161657367, 0.0028662257),
)


def angle_rad(cos: Tensor, sin: Tensor) -> Tensor:
    """0 .. pi, whichever side the direction is on; any length."""
    x, y = cos.abs(), sin.abs()
    slope = torch.minimum(x, y) / torch.maximum(x, y).clamp_min(1e-30)
    square = slope * slope
    series = torch.full_like(square, _SERIES[-1])
    for coefficient in reversed(_SERIES[:-1]):
        series = series * square + coefficient
    angle = slope * series
    angle = torch.where(y > x, 0.5 * math.pi - angle, angle)
    return torch.where(cos < 0.0, math.pi - angle, angle)
