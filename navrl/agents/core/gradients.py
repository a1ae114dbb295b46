"""Gradients of minibatches, gathered in parts where memory is short, and passes over a batch."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.agents.core.optimizer import Optimizer
from navrl.ranks import Ranks

Loss = Callable[[Any], tuple[Tensor, Tensor]]  # of a batch: the loss, and a row of metrics


class Gradients(NamedTuple):
    """The gradients of one minibatch; None for parameters that its loss does not depend on."""

    of_parameters: tuple[Tensor | None, ...]
    norm: Tensor
    metrics: Tensor  # a row


def accumulate(parts: Iterable[tuple[Tensor | float, Gradients]]) -> Gradients:
    """Return the sum of shares times gradients, holding only one part at a time beside the sum."""
    total: list[Tensor] = []
    for share, part in parts:
        used = [gradient is not None for gradient in part.of_parameters]
        found = [gradient for gradient in part.of_parameters if gradient is not None]
        scaled = torch._foreach_mul([*found, part.metrics], share)
        if total:
            torch._foreach_add_(total, scaled)
        else:
            total.extend(scaled)
    *gradients, metrics = total
    norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
    rows = iter(gradients)
    return Gradients(tuple(next(rows) if here else None for here in used), norm, metrics)


def fit(
    optimizer: Optimizer,
    loss: Loss,
    batch: Any,
    *,
    num_epochs: int,
    num_minibatches: int,
    parts: int,
    stopped: Tensor,
    ranks: Ranks,
) -> Tensor:
    """Take a gradient step for each minibatch; return means over the steps, as a row.

    The row holds the share of broken gradients, their norm, and the metrics of `loss`. `batch` is a
    NamedTuple of tensors and TensorDicts with the same rows. Minibatches are learned in so many `parts`,
    which takes less memory and comes to the same, because losses are means over rows; so do the shards of
    which each rank learns its own.
    """
    steps: list[Tensor] = []
    epochs = (_shuffled(batch, num_minibatches) for _ in range(num_epochs))
    for minibatch in (minibatch for epoch in epochs for minibatch in epoch):
        found = _of_all_shards(optimizer, loss, minibatch, parts, ranks)
        broken = optimizer.step(found.of_parameters, found.norm, stopped)
        steps.append(torch.cat([torch.stack([broken.float(), found.norm]), found.metrics]))
    return torch.stack(steps).mean(0)


def _of_all_shards(
    optimizer: Optimizer, loss: Loss, minibatch: Any, parts: int, ranks: Ranks
) -> Gradients:
    """Return the gradients of the minibatch; of too few rows for all shards every rank learns all."""
    shards = list(_split(minibatch, ranks.shards))
    if len(shards) < ranks.shards or ranks.shards == 1:
        return _in_parts(optimizer, loss, minibatch, parts)
    sums, found = [], None
    for number in ranks.own_shards:
        share, shard = shards[number]
        found = _in_parts(optimizer, loss, shard, parts)
        used = [gradient for gradient in found.of_parameters if gradient is not None]
        sums.append(torch.cat([*(each.reshape(-1) for each in used), found.metrics]) * share)
    assert found is not None  # every rank has a shard
    sizes = [0 if each is None else each.numel() for each in found.of_parameters]
    whole, metrics = torch.split(ranks.sum_shards(sums), [sum(sizes), len(found.metrics)])
    rows = zip(torch.split(whole, sizes), found.of_parameters, strict=True)
    gradients = tuple(None if like is None else row.view_as(like) for row, like in rows)
    return Gradients(gradients, whole.square().sum().sqrt(), metrics)


def _in_parts(optimizer: Optimizer, loss: Loss, minibatch: Any, parts: int) -> Gradients:
    if parts == 1:
        return _gradients(optimizer, loss, minibatch)
    split = _split(minibatch, parts)
    return accumulate((share, _gradients(optimizer, loss, part)) for share, part in split)


def _gradients(optimizer: Optimizer, loss: Loss, part: Any) -> Gradients:
    value, metrics = loss(part)
    gradients = torch.autograd.grad(value, optimizer.parameters, allow_unused=True)
    found = [gradient for gradient in gradients if gradient is not None]
    norm = torch.nn.utils.get_total_norm(found, foreach=True)
    return Gradients(gradients, norm, metrics.detach())


def _shuffled(batch: Any, number: int) -> Iterator[Any]:
    """Yield the batch in so many minibatches of random rows; as it is, if that is one."""
    if number == 1:
        yield batch
        return
    order = torch.randperm(batch[0].shape[0], device=batch[0].device)
    for index in order.chunk(number):
        yield type(batch)(*(column[index] for column in batch))


def _split(batch: Any, parts: int) -> Iterator[tuple[float, Any]]:
    """Yield the parts of a batch, each with its share of the rows."""
    rows = batch[0].shape[0]
    size = -(-rows // parts)
    for columns in zip(*(column.split(size) for column in batch), strict=True):
        yield columns[0].shape[0] / rows, type(batch)(*columns)
