"""Specs of TorchRL as named vectors and as actions for which there are heads."""

import pytest
import torch
from torchrl.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    Unbounded,
)

from navrl.config.checks import ConfigError
from navrl.envs.external.torchrl_specs import actions_of, leaf_specs, observed


def test_specs_become_vectors_with_names():
    spec = Composite(
        a=Composite(scan=Unbounded((2, 2, 3)), shape=(2,)),
        gear=Categorical(3, shape=(2,)),
        kind=MultiCategorical([2, 3], shape=(2, 2)),
        on=Categorical(2, shape=(2, 1), dtype=torch.bool),
        hot=OneHot(3, shape=(2, 3)),
        type=Bounded(0, 9, (2, 1), dtype=torch.int64),
        seen_mask=Unbounded((2, 1)),
        shape=(2,),
    )
    values = {
        ("a", "scan"): torch.arange(12.0).view(2, 2, 3),
        ("gear",): torch.tensor([2, 0]),
        ("kind",): torch.tensor([[1, 2], [0, 0]]),
        ("on",): torch.tensor([[True], [False]]),
        ("hot",): torch.tensor([[0, 1, 0], [1, 0, 0]]),
        ("type",): torch.tensor([[7], [8]]),
        ("seen_mask",): torch.tensor([[0.5], [1.0]]),
    }
    leaves = observed(dict(leaf_specs(spec)), 1)
    found = {leaf.name: leaf.vectors(values[leaf.key]).tolist() for leaf in leaves}
    assert found == {
        "a_scan": [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]],
        "gear": [[0, 0, 1], [1, 0, 0]],
        "kind": [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]],
        "on": [[1], [0]],
        "hot": [[0, 1, 0], [1, 0, 0]],
        "type_": [[7], [8]],  # layers have a method of this name
        "seen_mask_": [[0.5], [1.0]],  # NAME_mask would be the flags of a set
    }
    assert {leaf.name: leaf.features for leaf in leaves} == {n: len(v[0]) for n, v in found.items()}


def test_actions_become_those_of_the_world():
    spec = Composite(
        gear=Bounded(-1, 1, (2,), dtype=torch.int64),
        lights=Binary(2, (2, 2)),
        hot=MultiOneHot([2, 3], (2, 5)),
        more=MultiCategorical([2, 4], (2, 2)),
        shape=(2,),
    )
    actions = actions_of(dict(leaf_specs(spec)), (2,), torch.device("cpu"), None)
    assert actions.spec.nvec[0].tolist() == [3, 2, 2, 2, 3, 2, 4]
    assert actions.mask_size == 18
    given = torch.tensor([[0, 1, 0, 1, 2, 1, 3], [2, 0, 0, 0, 0, 0, 0]])
    found = actions.to_world(given)
    assert {key[0]: value.tolist() for key, value in found.items()} == {
        "gear": [-1, 1],
        "lights": [[1, 0], [0, 0]],
        "hot": [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]],
        "more": [[1, 3], [0, 0]],
    }
    assert all(spec[key].is_in(value) for key, value in found.items())


def test_numbers_without_bounds_take_those_of_the_option():
    spec = Composite(a=Unbounded((2,)), b=Bounded(-3, 5, (2, 2), dtype=torch.float64), shape=(2,))
    actions = actions_of(dict(leaf_specs(spec)), (2,), torch.device("cpu"), [-1, 2])
    assert actions.spec.low[0].tolist() == [-1, -3, -3]
    assert actions.spec.high[0].tolist() == [2, 5, 5]
    found = actions.to_world(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert found["a",].tolist() == [1, 4]
    assert found["b",].tolist() == [[2, 3], [5, 6]]
    assert found["b",].dtype == torch.float64


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (Unbounded((2, 1)), r"add env\.action_bounds=\[-1,1\]"),
        (Unbounded((2, 1), dtype=torch.int64), "expected choices"),
        (Bounded(0, 9**9, (2, 1), dtype=torch.int64), "expected choices"),
    ],
)
def test_actions_without_a_head_are_refused(spec, sentence):
    with pytest.raises(ConfigError, match=sentence):
        actions_of({("action",): spec}, (2,), torch.device("cpu"), None)
