"""What a real lidar adds to the true ranges: an error of the distance, and rays that do not come back."""

from dataclasses import dataclass

from torch import Tensor

from navrl.envs.core import random

_PARTS = 4  # uniform numbers whose sum is about normal: no logarithm, so the same bits in any batch
_COARSE = 1 << 12  # equally likely values of each
_MEAN = _PARTS * 0.5 * (1.0 - 1.0 / _COARSE)
_SIGMA = (_PARTS * (1.0 - 1.0 / _COARSE**2) / 12.0) ** 0.5


@dataclass(frozen=True, kw_only=True)
class LidarNoise:
    """How large the errors are; 0 and 0: none."""

    range_sigma_m: float  # standard deviation of the range of what is hit
    dropout: float  # probability that a ray does not come back, and reads as free

    def __post_init__(self) -> None:
        """Refuse impossible errors."""
        if not 0.0 <= self.range_sigma_m < float("inf"):
            raise ValueError(
                f"env.sim.noise.range_sigma_m = {self.range_sigma_m}; expected 0 or more; "
                "change env.sim.noise.range_sigma_m"
            )
        if not 0.0 <= self.dropout <= 1.0:
            raise ValueError(
                f"env.sim.noise.dropout = {self.dropout}; expected 0 to 1; change env.sim.noise.dropout"
            )


def noisy(noise: LidarNoise, ranges: Tensor, key: Tensor, step: Tensor, range_m: float) -> Tensor:
    """The ranges (M, N) as measured by the episodes with these keys (N,) in this step (N,).

    A free ray, of range_m, stays free; every other one is off by a number of its own.
    """
    if noise.range_sigma_m == 0.0 and noise.dropout == 0.0:
        return ranges
    *parts, lost = random.coarse(key, random.NOISE, step, ranges.shape[0], _PARTS + 1)
    error = (sum(parts[1:], parts[0]) - _MEAN) * (noise.range_sigma_m / _SIGMA)
    measured = (ranges + error).clamp(0.0, range_m)
    free = (ranges >= range_m) | (lost < noise.dropout)
    return measured.where(~free, range_m)
