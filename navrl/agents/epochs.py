"""Passes over a whole batch: one gradient step for each, whose gradient may be gathered piece by piece."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from navrl.agents.descent import Descent

Loss = Callable[[Any], tuple[Tensor, Tensor]]  # of a batch: what to minimise, and a row of metrics


def fit(
    descent: Descent, loss: Loss, batch: Any, *, num_epochs: int, pieces: int, stopped: Tensor
) -> Tensor:
    """Means over the steps, as a row: were gradients broken, their norm, and the metrics of `loss`.

    `batch` is a NamedTuple of tensors and TensorDicts with the same rows. In `pieces` it takes less memory
    and comes to the same, because losses are means over rows.
    """
    steps: list[Tensor] = []
    for _ in range(num_epochs):
        metrics: list[Tensor] = []
        for share, piece in _split(batch, pieces):
            value, row = loss(piece)
            torch.autograd.backward(share * value)
            metrics.append(share * row.detach())
        broken, norm = descent.step(stopped)
        steps.append(torch.cat([torch.stack([broken.float(), norm]), torch.stack(metrics).sum(0)]))
    return torch.stack(steps).mean(0)


def _split(batch: Any, pieces: int) -> Iterator[tuple[float, Any]]:
    """The parts of a batch, and what share of its rows each has."""
    rows = batch[0].shape[0]
    if pieces == 1:
        yield 1.0, batch
        return
    size = -(-rows // pieces)
    for columns in zip(*(column.split(size) for column in batch), strict=True):
        yield columns[0].shape[0] / rows, type(batch)(*columns)
