"""Packing: what goes in comes out, in rows that the order of the leaves decides."""

from typing import NamedTuple

import pytest
import torch

from navrl.envs.core.packing import Packing, pack


class Inner(NamedTuple):
    place_m: torch.Tensor
    alive: torch.Tensor


class Tree(NamedTuple):
    inner: Inner
    rounds: torch.Tensor
    none: tuple[torch.Tensor, ...]
    key: torch.Tensor


def tree():
    return Tree(
        inner=Inner(torch.tensor([[1.5, 2.5], [3.5, 4.5]]), torch.tensor([[[True, False]]])),
        rounds=torch.tensor([1 << 30, -7], dtype=torch.int32),
        none=(),
        key=torch.tensor([1 << 62, -1]),
    )


def test_every_leaf_comes_out_as_it_went_in():
    found = Packing(tree()).unpack(pack(tree()))
    assert isinstance(found.inner, Inner)
    assert found.none == ()
    for before, after in zip(
        [*tree().inner, tree().rounds, tree().key],
        [*found.inner, found.rounds, found.key],
        strict=True,
    ):
        assert after.dtype == before.dtype
        assert torch.equal(after, before)


def test_a_leaf_in_parts_has_the_same_rows():
    parts = tree()._replace(
        inner=Inner(tuple(tree().inner.place_m.unsqueeze(1)), tree().inner.alive)
    )
    assert all(torch.equal(a, b) for a, b in zip(pack(parts), pack(tree()), strict=True))


def test_another_type_is_refused():
    with pytest.raises(TypeError, match="float64; expected"):
        pack((torch.zeros(2, dtype=torch.float64),))
