"""Passes over a batch: every row once in each pass; gradients of batches of any number of rows."""

from typing import NamedTuple

import pytest
import torch
from torch._dynamo.utils import counters

from navrl.agents.core.gradients import LossGradients, fit
from navrl.agents.core.optimizer import Optimizer
from navrl.ranks import Ranks


class Rows(NamedTuple):
    number: torch.Tensor


def test_minibatches_are_all_rows_once_in_a_pass():
    parameter, seen = torch.nn.Parameter(torch.ones(1)), []
    limits = {"final_share": 1.0, "epsilon": 1e-5, "max_grad_norm": 1.0, "num_iterations": 1}
    optimizer = Optimizer([{"params": [parameter], "lr": 0.1}], **limits)

    def loss(batch):
        seen.append(batch.number.tolist())
        return 0.0 * parameter.sum(), batch.number.float().mean().reshape(1)

    options = {"num_epochs": 2, "num_minibatches": 3, "parts": 1, "stopped": torch.tensor(True)}
    gradients = LossGradients(loss, optimizer.parameters, "off")
    means = fit(optimizer, gradients, Rows(torch.arange(9)), ranks=Ranks(), **options)
    assert [len(rows) for rows in seen] == [3] * 6
    for number in range(2):
        rows = [row for part in seen[3 * number : 3 * number + 3] for row in part]
        assert sorted(rows) == list(range(9)) != rows
    assert means[-1] == 4.0


@pytest.mark.commands  # it compiles
def test_one_graph_serves_batches_of_any_number_of_rows():
    weight = torch.nn.Parameter(torch.tensor(3.0))

    def loss(batch):
        value = (weight * batch.number).square().mean()
        return value, value.reshape(1)

    gradients = LossGradients(loss, [weight], "on")
    before = counters["stats"]["unique_graphs"]
    for rows in (5, 9, 1, 5):
        number = torch.arange(rows, dtype=torch.float32) + 1.0
        mean_square = sum(n * n for n in range(1, rows + 1)) / rows
        found = gradients(Rows(number))
        assert found.of_parameters[0].item() == pytest.approx(6.0 * mean_square)
        assert found.norm.item() == pytest.approx(6.0 * mean_square)
        assert found.metrics.tolist() == pytest.approx([9.0 * mean_square])
        with torch.no_grad():  # in place, as optimizers do
            weight.mul_(2.0).div_(2.0)
    assert counters["stats"]["unique_graphs"] - before == 1
