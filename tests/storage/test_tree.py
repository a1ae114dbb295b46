"""Any nested state comes back with the same structure, types, keys, order and bits."""

import json
import math
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from torch import Tensor

from navrl.storage.tree import MAX_DEPTH, flatten, unflatten

DTYPES = (torch.float64, torch.bfloat16, torch.int32, torch.uint8, torch.bool)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.text()
    | st.builds(
        lambda dtype, shape: (torch.arange(math.prod(shape)) % 2).to(dtype).view(shape),
        st.sampled_from(DTYPES),
        st.lists(st.integers(0, 3), max_size=3),
    )
)
keys = st.text(max_size=4) | st.sampled_from(["a/b", "a", "b", "~1", "tensor", ""]) | st.integers()
trees = st.recursive(
    leaves,
    lambda children: (
        st.lists(children, max_size=4)
        | st.lists(children, max_size=4).map(tuple)
        | st.dictionaries(keys, children, max_size=4)
    ),
    max_leaves=20,
)


class Pose(NamedTuple):
    """A NamedTuple, as simulators have."""

    position_m: Tensor
    yaw_rad: float


def through_json(tree: Any) -> Any:
    tensors, skeleton = flatten(tree)
    return unflatten(tensors, json.loads(json.dumps(skeleton, allow_nan=False)))


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, Tensor):
        assert found is expected
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        assert [type(key) for key in found] == [type(key) for key in expected]
        for key, value in expected.items():
            assert_same(found[key], value)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        assert repr(found) == repr(expected)  # tells -0.0 from 0.0, and nan equals nan


@settings(max_examples=300, deadline=None)
@given(trees)
def test_every_tree_survives(tree: Any) -> None:
    assert_same(through_json(tree), tree)


def test_a_named_tuple_comes_back_as_a_tuple_and_an_ordered_dict_as_a_dict() -> None:
    position_m = torch.zeros(3)
    found = through_json({"pose": Pose(position_m, 0.5), "model": OrderedDict(w=position_m)})
    assert_same(found["pose"], (position_m, 0.5))
    assert type(found["model"]) is dict
    assert Pose(*found["pose"]).yaw_rad == 0.5


def test_names_are_readable_and_unique() -> None:
    one, two = torch.zeros(1), torch.ones(1)
    tree = {"a/b": one, "a": {"b": two}, "optim": {0: [one, {"lr": two}]}}
    tensors, _ = flatten(tree)
    assert list(tensors) == ["a/b", "a/b~1", "optim/0/0", "optim/0/1/lr"]
    assert_same(through_json(tree), tree)


def test_a_bare_tensor_is_a_tree() -> None:
    tensor = torch.ones(2)
    assert list(flatten(tensor)[0]) == ["state"]
    assert through_json(tensor) is tensor


@pytest.mark.parametrize(
    ("leaf", "word"),
    [
        (object(), "builtins.object"),
        ({1, 2}, "builtins.set"),
        (b"x", "builtins.bytes"),
        (torch.float32, "torch.dtype"),
        (TensorDict({}, []), "TensorDict"),
        (1 + 2j, "builtins.complex"),
        ({True: 1}, "key True"),
        ({(1, 2): 1}, "key"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_anything_else_is_refused_by_path(leaf: Any, word: str) -> None:
    with pytest.raises(TypeError, match=f"agent/0/x .*{word}"):
        flatten({"agent": [{"x": leaf}]})


def test_what_contains_itself_is_refused() -> None:
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(ValueError, match="deeper"):
        flatten(tree)


def test_the_deepest_tree_survives_and_a_huge_int_does_not() -> None:
    tree: Any = 1
    for _ in range(MAX_DEPTH):
        tree = {"k": tree}
    assert_same(through_json(tree), tree)
    with pytest.raises(ValueError, match="agent is an int of more than"):
        flatten({"agent": 2**5000})


@pytest.mark.parametrize(
    "skeleton",
    [
        [],
        {},
        {"tensor": 1},
        {"tensor": True},
        {"tensor": "0"},
        [{"tensor": 0}, {"tensor": 0}],
        {"tensor": 0, "more": 1},
        {"list": [{"tensor": 0}]},
        {"float": 1.0},
        {"dict": [["a"], {"tensor": 0}]},
        {"dict": [[1.5, {"tensor": 0}]]},
        {"dict": [["a", {"tensor": 0}], ["a", 1]]},
        {"dict": [["a", {"tensor": 0}, 1]]},
    ],
    ids=str,
)
def test_a_malformed_skeleton_is_a_value_error(skeleton: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        unflatten({"a": torch.zeros(1)}, skeleton)


def test_a_skeleton_nested_too_deeply_is_a_value_error() -> None:
    skeleton: Any = {"tensor": 0}
    for _ in range(5000):
        skeleton = [skeleton]
    with pytest.raises(ValueError, match="deeper"):
        unflatten({"a": torch.zeros(1)}, skeleton)
