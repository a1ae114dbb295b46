"""Memory shared by ranks, which are threads here: pieces, orders, and calls that do not fit together."""

import mmap
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from navrl.ranks.shared import _LINE, _PLACE_BYTES, SharedMemory

FLOATS = _PLACE_BYTES // 4  # that go through at once


def of_each(ranks, function):
    """What function(memory, rank) returns in every rank."""
    memory = mmap.mmap(-1, ranks * _LINE * 8 + 2 * ranks * _PLACE_BYTES)
    own = [SharedMemory(memory, rank, [os.getpid()] * ranks) for rank in range(ranks)]
    with ThreadPoolExecutor(ranks) as threads:
        return list(threads.map(function, own, range(ranks)))


def test_rows_larger_than_a_place_are_added_in_the_order_of_shards():
    """1e8 + 1 is 1e8 in float32, so that (1e8 + -1e8) + 1 is 1 and (1e8 + 1) + -1e8 is 0."""
    shards = [1e8, -1e8, 1.0, 1e8, 1.0, -1e8]  # two of each of three ranks: their sum is 0, not 1

    def summed(memory, rank):
        rows = [torch.full((FLOATS + 3,), value) for value in shards[2 * rank : 2 * rank + 2]]
        return [memory.sum(rows), memory.sum(rows)]

    for totals in of_each(3, summed):
        for total in totals:
            assert total.shape == (FLOATS + 3,)
            assert total.unique().tolist() == [0.0]


def test_every_rank_receives_the_tensors_of_all_in_their_order():
    size = 2 * _PLACE_BYTES + 5

    def gathered(memory, rank):
        return memory.all_gather(torch.full((size,), rank, dtype=torch.uint8))

    for found in of_each(3, gathered):
        assert found.shape == (3, size)
        assert [row.unique().tolist() for row in found] == [[0], [1], [2]]


def test_ranks_that_exchange_different_things_are_refused():
    def gathered(memory, rank):
        with pytest.raises(RuntimeError, match="ranks are out of step"):
            memory.all_gather(torch.zeros(1 + rank))
        return True

    assert all(of_each(2, gathered))
