"""Units of the critic's outputs: those of the rewards, or values of about unit scale."""

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from navrl.agents.core.team import ALIVE
from navrl.config.checks import require_choice

_DECAY = 0.995  # of the statistics at each update
_LEAST_SEEN = 1e-5
_LEAST_VARIANCE = 1e-2


class ValueScale(nn.Module):
    """agent.value_normalisation=none: the outputs of the critic are the values."""

    def values(self, outputs: Tensor) -> Tensor:
        """Return the values for outputs of the critic."""
        return outputs

    def learn(self, batch: TensorDictBase, last: nn.Linear, frozen: Tensor) -> None:
        """Convert state_value and value_target of the frames into units of the critic with this last layer.

        Where the bool `frozen` is true, only the frames change.
        """


class EmaValues(ValueScale):
    """agent.value_normalisation=ema: values minus their recent mean, divided by their recent deviation.

    When the statistics move, the last layer moves against them, so that every value stays what it was. Only
    the very first statistics change the values of the critic: before them the scale was unknown.
    """

    running_mean: Tensor
    running_mean_square: Tensor
    seen: Tensor  # the share of both means that comes from data instead of their initial zeros

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(1))
        self.register_buffer("running_mean_square", torch.zeros(1))
        self.register_buffer("seen", torch.zeros(()))

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and deviation, corrected for the initial zeros."""
        seen = self.seen.clamp_min(_LEAST_SEEN)
        mean = self.running_mean / seen
        variance = self.running_mean_square / seen - mean.square()
        return mean, variance.clamp_min(_LEAST_VARIANCE).sqrt()

    def values(self, outputs: Tensor) -> Tensor:
        """Return the values for outputs of the critic."""
        mean, deviation = self.moments()
        return outputs * deviation + mean

    @torch.no_grad()
    def learn(self, batch: TensorDictBase, last: nn.Linear, frozen: Tensor) -> None:
        """Update the statistics by the targets of the living, and convert frames and last layer to them."""
        value, target = batch.get("state_value"), batch.get("value_target")
        known, (old_mean, old_deviation) = self.seen > 0.0, self.moments()
        self._follow(target, target.isfinite() & batch.get(ALIVE, True) & ~frozen)
        mean, deviation = self.moments()
        gain = torch.where(known, old_deviation / deviation, 1.0)
        shift = torch.where(known, (old_mean - mean) / deviation, 0.0)
        last.weight.mul_(gain)
        last.bias.mul_(gain).add_(shift)
        batch.set("state_value", gain * (value - old_mean) / old_deviation + shift)
        batch.set("value_target", (target - mean) / deviation)

    def _follow(self, values: Tensor, counted: Tensor) -> None:
        """Move the running means one step towards those of the counted values, if there are any."""
        size = counted.sum()
        step = torch.where(size > 0, 1.0 - _DECAY, 0.0)
        rows = torch.where(counted, values, 0.0)
        for statistic, sums in (
            (self.running_mean, rows.sum()),
            (self.running_mean_square, rows.square().sum()),
            (self.seen, size),
        ):
            statistic.lerp_((sums / size.clamp_min(1)).to(statistic).expand_as(statistic), step)


_SCALES = {"none": ValueScale, "ema": EmaValues}


def value_scale(kind: str) -> ValueScale:
    """Return the scale that agent.value_normalisation names."""
    require_choice("agent.value_normalisation", kind, _SCALES)
    return _SCALES[kind]()
