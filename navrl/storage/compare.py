"""Two states leaf by leaf: what differs, and by how much."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

ABSENT = "absent"


class Difference(NamedTuple):
    """A leaf that is not the same bits in two states."""

    path: str
    one: str  # what it is in each
    two: str
    largest: float | None  # absolute difference; None where it is not one of numbers
    share: float | None  # of the elements that differ


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a state by its path, as /agent/policy/trunk.0.weight."""
    if _is_branch(tree):
        for key, value in _children(tree).items():
            yield from leaves(value, f"{path}/{key}")
    else:
        yield path, tree


def differing(one: Any, two: Any) -> list[Difference]:
    """The leaves that differ and the branches that only one of them has, in the order of the first state."""
    return list(_differing(one, two, ""))


def _differing(one: Any, two: Any, path: str) -> Iterator[Difference]:
    if not (_is_branch(one) and _is_branch(two)):
        difference = _compare(path, one, two)
        if difference is not None:
            yield difference
        return
    here, there = _children(one), _children(two)
    for key in here | there:
        inner = f"{path}/{key}"
        if key in here and key in there:
            yield from _differing(here[key], there[key], inner)
        else:
            left, right = (describe(it[key]) if key in it else ABSENT for it in (here, there))
            yield Difference(inner, left, right, None, None)


def _is_branch(tree: Any) -> bool:
    return isinstance(tree, dict | list | tuple) and bool(tree)


def _children(branch: Any) -> dict[Any, Any]:
    return branch if isinstance(branch, dict) else dict(enumerate(branch))


def differences(one: Any, two: Any) -> list[str]:
    """Paths at which two states are not the same bits."""
    return [difference.path for difference in differing(one, two)]


def describe(value: Any) -> str:
    """In a few words: a tensor by dtype and shape, a branch by how many leaves it has, all else as it is."""
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype} {' x '.join(map(str, value.shape)) or 'scalar'}"
    return f"{sum(1 for _ in leaves(value))} leaves" if _is_branch(value) else repr(value)


def _compare(path: str, one: Any, two: Any) -> Difference | None:
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        return _compare_tensors(path, one, two)
    if type(one) is type(two) and repr(one) == repr(two):  # NaN is NaN, and 0.0 is not -0.0
        return None
    apart = _apart(one, two) if _is_number(one) and _is_number(two) else None
    return Difference(path, describe(one), describe(two), apart, None)


def _compare_tensors(path: str, one: Tensor, two: Tensor) -> Difference | None:
    if one.dtype != two.dtype or one.shape != two.shape:
        return Difference(path, describe(one), describe(two), None, None)
    differ = (_bits(one) != _bits(two)).view(one.numel(), -1).any(-1) if one.numel() else None
    if differ is None or not bool(differ.any()):
        return None
    apart = (one.double() - two.double()).abs().nan_to_num(nan=math.inf)
    share = float(differ.double().mean())
    return Difference(path, describe(one), describe(two), float(apart.max()), share)


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _apart(one: float, two: float) -> float:
    gap = abs(one - two)
    return math.inf if math.isnan(gap) else float(gap)
