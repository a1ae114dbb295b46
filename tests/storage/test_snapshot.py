"""Copies in memory that is used again."""

import torch

from navrl.storage.async_saver import Snapshot


def test_a_snapshot_reuses_its_memory_and_shares_none(tmp_path):
    one, two = Snapshot(), Snapshot()
    live = {"a": torch.ones(5), "b": torch.zeros(2, 3).t(), "c": torch.ones(1).expand(4)}
    first, second = one.fill(live), two.fill(live)
    live["a"].fill_(7.0)
    assert first["a"].tolist() == [1.0] * 5
    places = {tensor.data_ptr() for tensor in (*first.values(), *second.values(), *live.values())}
    assert len(places) == 9
    again = one.fill(live | {"a": torch.ones(6)})
    assert again["b"].data_ptr() == first["b"].data_ptr()
    assert again["a"].shape == (6,)
    assert again["c"].tolist() == [1.0] * 4
