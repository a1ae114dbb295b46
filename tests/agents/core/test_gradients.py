"""Passes over a batch: every row once in each pass."""

from typing import NamedTuple

import torch

from navrl.agents.core.gradients import fit
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
    means = fit(optimizer, loss, Rows(torch.arange(9)), ranks=Ranks(), **options)
    assert [len(rows) for rows in seen] == [3] * 6
    for number in range(2):
        rows = [row for part in seen[3 * number : 3 * number + 3] for row in part]
        assert sorted(rows) == list(range(9)) != rows
    assert means[-1] == 4.0
