"""Hybrid: bounded and binary columns in one spec, whatever TorchRL does with it."""

import copy
import pickle

import pytest
import torch
from torchrl.data import Bounded, Composite

from navrl.envs.core.specs import Hybrid


class TwoSwitches(Hybrid):
    """Three bounded columns and two binary ones."""

    num_binary = 2


def rudder_throttle_fire(*batch):
    return Hybrid([-1.0, 0.0, 0.0], [1.0, 1.0, 1.0], shape=(*batch, 3))


def test_random_values_are_within_bounds_and_binary_columns_are_coins():
    spec = TwoSwitches([-2.0, 0.0, 3.0, 0.0, 0.0], [-1.0, 1.0, 7.0, 1.0, 1.0], shape=(4, 5))
    values = spec.rand((1000,))
    assert values.shape == (1000, 4, 5)
    assert values.dtype == torch.float32
    rows = values.reshape(-1, 5)
    middles, widths = torch.tensor([-1.5, 0.5, 5.0]), torch.tensor([1.0, 1.0, 4.0])
    assert ((rows[:, :3] - middles).abs() <= widths / 2).all()
    # 4000 draws: four standard errors of a uniform column and of a fair coin
    assert ((rows[:, :3].mean(0) - middles).abs() < 4 * widths / 12**0.5 / 4000**0.5).all()
    assert set(rows[:, 3:].unique().tolist()) == {0.0, 1.0}
    assert ((rows[:, 3:].mean(0) - 0.5).abs() < 4 * 0.5 / 4000**0.5).all()


@pytest.mark.parametrize(
    ("action", "legal", "nearest"),
    [
        ([-1.0, 0.0, 0.0], True, [-1.0, 0.0, 0.0]),
        ([0.25, 1.0, 1.0], True, [0.25, 1.0, 1.0]),
        ([0.25, 1.0, 0.25], False, [0.25, 1.0, 0.0]),
        ([0.25, 1.0, 0.75], False, [0.25, 1.0, 1.0]),
        ([-1.5, 0.5, 1.0], False, [-1.0, 0.5, 1.0]),
        ([0.0, 1.5, 2.0], False, [0.0, 1.0, 1.0]),
    ],
)
def test_membership_and_projection_are_honest(action, legal, nearest):
    spec, value = rudder_throttle_fire(), torch.tensor(action)
    assert spec.is_in(value) is legal
    assert spec.project(value.clone()).tolist() == nearest
    assert spec.is_in(spec.project(value.clone()))


def test_a_value_of_another_dtype_is_not_in_it():
    spec = rudder_throttle_fire(4)
    assert spec.is_in(torch.zeros(4, 3))
    assert not spec.is_in(torch.zeros(4, 3, dtype=torch.float64))


OPERATIONS = {
    "clone": (lambda s: s.clone(), (4, 3)),
    "deepcopy": (copy.deepcopy, (4, 3)),
    "pickle": (lambda s: pickle.loads(pickle.dumps(s)), (4, 3)),
    "expand": (lambda s: s.expand(2, 4, 3), (2, 4, 3)),
    "index": (lambda s: s[0], (3,)),
    "unsqueeze": (lambda s: s.unsqueeze(0), (1, 4, 3)),
    "stack": (lambda s: torch.stack([s, s.clone()]), (2, 4, 3)),
    "dtype": (lambda s: s.to(torch.float64).to(torch.float32), (4, 3)),
    "in a composite": (lambda s: Composite(a=s, shape=(4,)).expand(2, 4).clone()["a"], (2, 4, 3)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_binary_column_survives(name):
    operation, shape = OPERATIONS[name]
    spec = operation(rudder_throttle_fire(4))
    assert type(spec) is Hybrid
    assert spec.shape == shape
    assert spec == rudder_throttle_fire(*shape[:-1])
    assert set(spec.rand((50,))[..., 2].unique().tolist()) == {0.0, 1.0}
    assert spec.zero().shape == shape


def test_another_device_keeps_it_too():
    moved = rudder_throttle_fire(4).to("meta")
    assert type(moved) is Hybrid
    assert moved.device == torch.device("meta")


def test_it_equals_neither_other_bounds_nor_a_plain_bounded():
    spec = rudder_throttle_fire(4)
    assert spec != Hybrid([-1.0, 0.0, 0.0], [1.0, 2.0, 1.0], shape=(4, 3))
    assert spec != Bounded(spec.low, spec.high, spec.shape)
    assert Bounded(spec.low, spec.high, spec.shape) != spec


@pytest.mark.parametrize(
    ("low", "high"), [([-1.0, -1.0], [1.0, 1.0]), ([0.0], [1.0]), ([-1.0, 0.0], [1.0, 2.0])]
)
def test_a_last_column_that_is_not_binary_is_refused(low, high):
    with pytest.raises(ValueError, match="with the bounds 0 and 1; change the env's action spec"):
        Hybrid(low, high, shape=(4, len(low)))
