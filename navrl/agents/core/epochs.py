"""Passes over a batch: a gradient step for each minibatch, whose gradient may be gathered piece by piece."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from navrl.agents.core.optimizer import Descent

Loss = Callable[[Any], tuple[Tensor, Tensor]]  # of a batch: what to minimise, and a row of metrics


def fit(
    descent: Descent,
    loss: Loss,
    batch: Any,
    *,
    num_epochs: int,
    num_minibatches: int,
    pieces: int,
    stopped: Tensor,
) -> Tensor:
    """Means over the steps, as a row: were gradients broken, their norm, and the metrics of `loss`.

    `batch` is a NamedTuple of tensors and TensorDicts with the same rows. In `pieces` it takes less memory
    and comes to the same, because losses are means over rows.
    """
    steps: list[Tensor] = []
    minibatches = (part for _ in range(num_epochs) for part in _shuffled(batch, num_minibatches))
    for minibatch in minibatches:
        metrics: list[Tensor] = []
        for share, piece in _split(minibatch, pieces):
            value, row = loss(piece)
            torch.autograd.backward(share * value)
            metrics.append(share * row.detach())
        broken, norm = descent.step(stopped)
        steps.append(torch.cat([torch.stack([broken.float(), norm]), torch.stack(metrics).sum(0)]))
    return torch.stack(steps).mean(0)


def _shuffled(batch: Any, number: int) -> Iterator[Any]:
    """The batch in so many parts of random rows; as it is, if that is one."""
    if number == 1:
        yield batch
        return
    order = torch.randperm(batch[0].shape[0], device=batch[0].device)
    for index in order.chunk(number):
        yield type(batch)(*(column[index] for column in batch))


def _split(batch: Any, pieces: int) -> Iterator[tuple[float, Any]]:
    """The parts of a batch, and what share of its rows each has."""
    rows = batch[0].shape[0]
    if pieces == 1:
        yield 1.0, batch
        return
    size = -(-rows // pieces)
    for columns in zip(*(column.split(size) for column in batch), strict=True):
        yield columns[0].shape[0] / rows, type(batch)(*columns)
