"""Gradients of minibatches, gathered in parts where memory is short, and passes over a batch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor

from navrl.agents.core.optimizer import Optimizer
from navrl.envs.core.compiling import CompiledGradients
from navrl.ranks import Ranks

Loss = Callable[[Any], tuple[Tensor, Tensor]]  # of a batch: the loss, and a row of metrics


class Gradients(NamedTuple):
    """The gradients of one minibatch; None for parameters that its loss does not depend on."""

    of_parameters: tuple[Tensor | None, ...]
    norm: Tensor
    metrics: Tensor  # a row


class LossGradients:
    """A loss with its backward pass and the norm of its gradients in one graph, for any number of rows.

    Batches are NamedTuples of tensors and TensorDicts. Tensors go in and come out, so that a compiled call
    does not look through TensorDicts.
    """

    def __init__(self, loss: Loss, parameters: Sequence[Tensor], compile_mode: str | bool) -> None:
        self._loss, self._parameters = loss, list(parameters)
        self._kind: Any = tuple  # of batches
        # Of each column: its field, its key in a TensorDict, and the TensorDict's sizes after the rows.
        self._fields: list[tuple[str, str | tuple[str, ...] | None, tuple[int, ...]]] = []
        self._compiled = CompiledGradients(self._of_columns, compile_mode, any_rows=True)

    def __call__(self, batch: Any) -> Gradients:
        """Return gradients, their norm and the metrics of the loss."""
        self._kind, self._fields, columns = type(batch), [], []
        for field, value in zip(batch._fields, batch, strict=True):
            if isinstance(value, Tensor):
                self._fields.append((field, None, ()))
                columns.append(value)
                continue
            for key, leaf in value.items(include_nested=True, leaves_only=True):
                self._fields.append((field, key, value.shape[1:]))
                columns.append(leaf)
        return Gradients(*self._compiled(*columns))

    def _of_columns(self, *columns: Tensor) -> tuple[tuple[Tensor | None, ...], Tensor, Tensor]:
        loss, metrics = self._loss(self._batch(columns))
        metrics = metrics.detach()
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        found = [gradient for gradient in gradients if gradient is not None]
        return gradients, _norm(found), metrics

    def _batch(self, columns: Sequence[Tensor]) -> Any:
        values: dict[str, Any] = {}
        for (field, key, sizes), column in zip(self._fields, columns, strict=True):
            if key is None:
                values[field] = column
                continue
            if field not in values:
                values[field] = TensorDict({}, batch_size=[column.shape[0], *sizes])
            values[field].set(key, column)
        # Fields that are left are TensorDicts from which nothing is read.
        rows = columns[0].shape[0]
        return self._kind(*(values.get(f, TensorDict({}, [rows])) for f in self._kind._fields))


def _norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the norm of all gradients together."""
    if torch.compiler.is_compiling():  # get_total_norm leaves the graph, once for every parameter
        return torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
    return torch.nn.utils.get_total_norm(gradients, foreach=True)


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
    gradients: LossGradients,
    batch: Any,
    *,
    num_epochs: int,
    num_minibatches: int,
    parts: int,
    stopped: Tensor,
    ranks: Ranks,
) -> Tensor:
    """Take a gradient step for each minibatch; return means over the steps, as a row.

    The row holds the share of broken gradients, their norm, and the metrics of the loss. `batch` is a
    NamedTuple of tensors and TensorDicts with the same rows. Minibatches are learned in so many `parts`,
    which takes less memory and comes to the same, because losses are means over rows; so do the shards of
    which each rank learns its own.
    """
    steps: list[Tensor] = []
    epochs = (_shuffled(batch, num_minibatches) for _ in range(num_epochs))
    for minibatch in (minibatch for epoch in epochs for minibatch in epoch):
        found = _of_all_shards(gradients, minibatch, parts, ranks)
        broken = optimizer.step(found.of_parameters, found.norm, stopped)
        steps.append(torch.cat([torch.stack([broken.float(), found.norm]), found.metrics]))
    return torch.stack(steps).mean(0)


def _of_all_shards(gradients: LossGradients, minibatch: Any, parts: int, ranks: Ranks) -> Gradients:
    """Return the gradients of the minibatch; of too few rows for all shards every rank learns all."""
    shards = list(_split(minibatch, ranks.shards))
    if len(shards) < ranks.shards or ranks.shards == 1:
        return _in_parts(gradients, minibatch, parts)
    sums, found = [], None
    for number in ranks.own_shards:
        share, shard = shards[number]
        found = _in_parts(gradients, shard, parts)
        used = [gradient for gradient in found.of_parameters if gradient is not None]
        sums.append(torch.cat([*(each.reshape(-1) for each in used), found.metrics]) * share)
    assert found is not None  # every rank has a shard
    sizes = [0 if each is None else each.numel() for each in found.of_parameters]
    whole, metrics = torch.split(ranks.sum_shards(sums), [sum(sizes), len(found.metrics)])
    rows = zip(torch.split(whole, sizes), found.of_parameters, strict=True)
    summed = tuple(None if like is None else row.view_as(like) for row, like in rows)
    return Gradients(summed, whole.square().sum().sqrt(), metrics)


def _in_parts(gradients: LossGradients, minibatch: Any, parts: int) -> Gradients:
    if parts == 1:
        return gradients(minibatch)
    return accumulate((share, gradients(part)) for share, part in _split(minibatch, parts))


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
