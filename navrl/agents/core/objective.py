"""The terms that PPO and HMASD minimize, and the metrics that describe them, on plain tensors."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Clipped(NamedTuple):
    """The clipped objective of every sample; the caller takes the mean."""

    loss: Tensor
    ratio: Tensor  # of the new probability to the old one
    clipped: Tensor  # bool


def clipped_objective(log_ratio: Tensor, advantage: Tensor, clip_epsilon: float) -> Clipped:
    """Compute equation 7 of arXiv:1707.06347, negated; `log_ratio` is new minus old log-probability."""
    ratio = log_ratio.exp()
    limited = ratio.clamp(1.0 - clip_epsilon, 1.0 + clip_epsilon)
    loss = -torch.minimum(ratio * advantage, limited * advantage)
    return Clipped(loss, ratio, (ratio - 1.0).abs() > clip_epsilon)


def value_error(
    value: Tensor,
    target: Tensor,
    old_value: Tensor,
    *,
    value_clip: float | None,
    huber_delta: float | None,
) -> Tensor:
    """Return the error of every value; `old_value` is the value before the first gradient step.

    With `value_clip` a value gains nothing by moving further than that. Errors beyond `huber_delta` count
    linearly, without it all count squared.
    """
    error = _distance(value, target, huber_delta)
    if value_clip is None:
        return error
    limited = old_value + (value - old_value).clamp(-value_clip, value_clip)
    return torch.maximum(error, _distance(limited, target, huber_delta))


def _distance(value: Tensor, target: Tensor, huber_delta: float | None) -> Tensor:
    if huber_delta is None:
        return functional.mse_loss(value, target, reduction="none")
    return functional.huber_loss(value, target, reduction="none", delta=huber_delta)


def explained_variance(
    value: Tensor, target: Tensor, counted: Tensor | None = None, *, correction: int = 1
) -> Tensor:
    """Return 1 - residual variance over target variance, 0 where all targets are equal."""
    residual, whole = (
        rows.var(correction=correction) if counted is None else moments(rows, counted)[1]
        for rows in (target - value, target)
    )
    return torch.where(whole > 0.0, 1.0 - residual / whole, 0.0)


def moments(rows: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the unbiased variance of the counted rows."""
    size = counted.sum()
    mean = torch.where(counted, rows, 0.0).sum() / size.clamp_min(1)
    squares = torch.where(counted, rows - mean, 0.0).square().sum()
    return mean, squares / (size - 1).clamp_min(1)
