"""Compare two states leaf by leaf: which leaves differ, and by how much."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

ABSENT = "absent"


class Difference(NamedTuple):
    """A leaf that is not the same bits in two states."""

    path: str
    first: str  # its description in each state
    second: str
    largest: float | None  # absolute difference; None where the leaf is no number
    share: float | None  # of the elements that differ


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a state by its path, as /agent/policy/trunk.0.weight."""
    if _is_branch(tree):
        for key, value in _children(tree).items():
            yield from leaves(value, f"{path}/{key}")
    else:
        yield path, tree


def differing(first: Any, second: Any) -> list[Difference]:
    """Return leaves that differ and branches that only one state has, in the order of the first state."""
    return list(_differing(first, second, ""))


def _differing(first: Any, second: Any, path: str) -> Iterator[Difference]:
    if not (_is_branch(first) and _is_branch(second)):
        difference = _compare(path, first, second)
        if difference is not None:
            yield difference
        return
    here, there = _children(first), _children(second)
    for key in here | there:
        inner = f"{path}/{key}"
        if key in here and key in there:
            yield from _differing(here[key], there[key], inner)
        else:
            left, right = (describe(b[key]) if key in b else ABSENT for b in (here, there))
            yield Difference(inner, left, right, None, None)


def _is_branch(tree: Any) -> bool:
    return isinstance(tree, dict | list | tuple) and bool(tree)


def _children(branch: Any) -> dict[Any, Any]:
    return branch if isinstance(branch, dict) else dict(enumerate(branch))


def differences(first: Any, second: Any) -> list[str]:
    """Return the paths at which two states are not the same bits."""
    return [difference.path for difference in differing(first, second)]


def describe(value: Any) -> str:
    """Return a few words: dtype and shape of a tensor, the number of leaves of a branch, or the value."""
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype} {' x '.join(map(str, value.shape)) or 'scalar'}"
    return f"{sum(1 for _ in leaves(value))} leaves" if _is_branch(value) else repr(value)


def _compare(path: str, first: Any, second: Any) -> Difference | None:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return _compare_tensors(path, first, second)
    # By their text: NaN is NaN, and 0.0 is not -0.0.
    if type(first) is type(second) and repr(first) == repr(second):
        return None
    apart = _apart(first, second) if _is_number(first) and _is_number(second) else None
    return Difference(path, describe(first), describe(second), apart, None)


def _compare_tensors(path: str, first: Tensor, second: Tensor) -> Difference | None:
    if first.dtype != second.dtype or first.shape != second.shape:
        return Difference(path, describe(first), describe(second), None, None)
    differ = (
        (_bits(first) != _bits(second)).view(first.numel(), -1).any(-1) if first.numel() else None
    )
    if differ is None or not bool(differ.any()):
        return None
    apart = (first.double() - second.double()).abs().nan_to_num(nan=math.inf)
    share = float(differ.double().mean())
    return Difference(path, describe(first), describe(second), float(apart.max()), share)


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _apart(first: float, second: float) -> float:
    gap = abs(first - second)
    return math.inf if math.isnan(gap) else float(gap)
