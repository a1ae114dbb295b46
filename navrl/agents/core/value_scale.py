"""In which units a critic speaks: those of the rewards, or values of about unit scale."""

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from navrl.agents.core.team import ALIVE

_MEMORY = 0.995  # how much of a statistic is kept at each update
_LEAST_SEEN = 1e-5
_LEAST_VARIANCE = 1e-2


class ValueScale(nn.Module):
    """agent.value_normalisation=none: what a critic says is the value."""

    def values(self, outputs: Tensor) -> Tensor:
        """Values for what the critic said."""
        return outputs

    def learn(self, batch: TensorDictBase, last: nn.Linear, frozen: Tensor) -> None:
        """Turn state_value and value_target of the frames into units of the critic with this last layer.

        Where the bool `frozen` is true, nothing but the frames may change.
        """


class EmaValues(ValueScale):
    """agent.value_normalisation=ema: values minus their recent mean, divided by their recent deviation.

    When the statistics move, the last layer moves against them, so that every value stays what it was. Only
    the very first statistics change what the critic means: before them it had no idea of the scale.
    """

    running_mean: Tensor
    running_mean_square: Tensor
    seen: Tensor  # how much of the two is not the zeros that they began with

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(1))
        self.register_buffer("running_mean_square", torch.zeros(1))
        self.register_buffer("seen", torch.zeros(()))

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and deviation, as if there had been no zeros to begin with."""
        seen = self.seen.clamp_min(_LEAST_SEEN)
        mean = self.running_mean / seen
        variance = self.running_mean_square / seen - mean.square()
        return mean, variance.clamp_min(_LEAST_VARIANCE).sqrt()

    def values(self, outputs: Tensor) -> Tensor:
        """Values for what the critic said."""
        mean, deviation = self.moments()
        return outputs * deviation + mean

    @torch.no_grad()
    def learn(self, batch: TensorDictBase, last: nn.Linear, frozen: Tensor) -> None:
        """Follow the targets of the living, and turn the frames and the last layer into the new units."""
        told, target = batch.get("state_value"), batch.get("value_target")
        known, (old_mean, old_deviation) = self.seen > 0.0, self.moments()
        self._follow(target, target.isfinite() & batch.get(ALIVE, True) & ~frozen)
        mean, deviation = self.moments()
        gain = torch.where(known, old_deviation / deviation, 1.0)
        shift = torch.where(known, (old_mean - mean) / deviation, 0.0)
        last.weight.mul_(gain)
        last.bias.mul_(gain).add_(shift)
        batch.set("state_value", gain * (told - old_mean) / old_deviation + shift)
        batch.set("value_target", (target - mean) / deviation)

    def _follow(self, values: Tensor, counted: Tensor) -> None:
        """One step of the running means towards those of the values that count, if there are any."""
        size = counted.sum()
        step = torch.where(size > 0, 1.0 - _MEMORY, 0.0)
        rows = torch.where(counted, values, 0.0)
        for statistic, sums in (
            (self.running_mean, rows.sum()),
            (self.running_mean_square, rows.square().sum()),
            (self.seen, size),
        ):
            statistic.lerp_((sums / size.clamp_min(1)).to(statistic).expand_as(statistic), step)


_SCALES = {"none": ValueScale, "ema": EmaValues}


def value_scale(kind: str) -> ValueScale:
    """The scale that agent.value_normalisation names."""
    if kind not in _SCALES:
        raise ValueError(
            f"agent.value_normalisation = {kind!r}; expected one of {', '.join(_SCALES)}; "
            "change agent.value_normalisation"
        )
    return _SCALES[kind]()
