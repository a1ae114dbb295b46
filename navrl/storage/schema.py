"""Compare a loaded state with what is expected of it, before anything uses it.

Checksums prove that a file holds what somebody wrote, not that it is the state of a run. What is expected is
mostly what a freshly built object returns: tensors of one dtype and shape, dicts of the same keys, values of
one type, where ints are counts and floats are finite. Rules stand where a state may grow, and where a value
is used as an index.
"""

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.config.checks import printable
from navrl.storage.compare import describe, leaves

_MOST = 2**63 - 1  # of a count, so that it fits a tensor
_SHOWN = 60  # characters of a value in a sentence
_NAMED = 3  # tensors in a sentence


class CheckpointMismatch(ValueError):  # noqa: N818 (the name is clear without a suffix)
    """An intact checkpoint that belongs to another model, or that no run has saved."""


class Rule(NamedTuple):
    """A test of one value, and its description."""

    expected: str
    fits: Callable[[Any], bool]


class Each(NamedTuple):
    """A list of any length with such items."""

    item: Any


class Named(NamedTuple):
    """A dict of any size with such values, whose names match the pattern."""

    value: Any
    pattern: str = ".*"


class Having(NamedTuple):
    """A dict with these entries, perhaps with the optional ones, and perhaps with others."""

    entries: Mapping[str, Any]
    optional: Mapping[str, Any] = MappingProxyType({})
    others: bool = True


class Either(NamedTuple):
    """A value of the first kind, or else of the second."""

    first: Any
    second: Any


ANYTHING = Rule("anything", lambda _: True)


def whole(least: int = 0, most: int = _MOST) -> Rule:
    """Return the rule of an int within these bounds."""
    bounds = f"of {least} or more" if most == _MOST else f"from {least} to {most}"
    return Rule(
        f"a whole number {bounds}", lambda value: type(value) is int and least <= value <= most
    )


def text(pattern: str, expected: str) -> Rule:
    """Return the rule of a string that matches the pattern."""
    return Rule(expected, lambda value: _is_text(value, pattern))


def exactly(*values: Any) -> Rule:
    """Return the rule of one of these values, of the same type."""
    return Rule(
        " or ".join(map(repr, values)),
        lambda value: any(type(value) is type(one) and value == one for one in values),
    )


def numbers(
    dtype: torch.dtype,
    sizes: Sequence[int | None],
    least: float | None = None,
    most: float | None = None,
) -> Rule:
    """Return the rule of a tensor of these sizes (None: any) whose numbers are within the bounds."""
    shape = " x ".join("any" if size is None else str(size) for size in sizes) or "scalar"
    bounds = f", {least:g} or more" if least is not None else ""
    bounds += f", at most {most:g}" if most is not None else ""

    def fits(value: Any) -> bool:
        if not isinstance(value, Tensor) or value.dtype != dtype or value.dim() != len(sizes):
            return False
        if any(size not in (None, found) for size, found in zip(sizes, value.shape, strict=True)):
            return False
        low = least is None or bool((value >= least).all())  # which NaN is not
        return low and (most is None or bool((value <= most).all()))

    return Rule(f"{str(dtype).removeprefix('torch.')} {shape}{bounds}", fits)


TENSOR = Rule("a tensor", lambda value: isinstance(value, Tensor))


def check(found: Any, expected: Any, place: str) -> None:
    """Raise CheckpointMismatch about the first part of a state that is not as expected.

    `expected` is a state to compare with, in which rules may stand for parts; `place` names it in the tree.
    """
    fault = next(_faults(found, expected, place), None)
    if fault is not None:
        raise CheckpointMismatch(fault)


def fits(found: Any, expected: Any) -> bool:
    """Return whether a state is as expected."""
    return next(_faults(found, expected, ""), None) is None


def check_fits(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], source: str) -> None:
    """Raise CheckpointMismatch unless names, shapes and dtypes agree; `source` names the file."""
    misfits = [_misfit(name, tensor, found, source) for name, tensor in expected.items()]
    strangers = [name for name in found if name not in expected]
    misfits += [f"{name!r} is in {source} but not in the model" for name in strangers]
    faults = [misfit for misfit in misfits if misfit]
    if faults:
        others = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise CheckpointMismatch(
            f"checkpoint does not fit: {faults[0]}{others}; use the same env and agent options"
        )


@contextlib.contextmanager
def loading(origin: str) -> Iterator[None]:
    """Name the file in errors about the state that was loaded from it."""
    try:
        yield
    except CheckpointMismatch as error:
        raise CheckpointMismatch(
            f"{origin} does not fit: {error}; use the env and agent options that it was saved with, or name "
            "another checkpoint"
        ) from error


def check_finite(state: Any, origin: str) -> None:
    """Raise CheckpointMismatch if the weights of a policy, or what belongs to them, are not finite."""
    names = [
        path.removeprefix("/")
        for path, leaf in leaves(state)
        if isinstance(leaf, Tensor) and not _is_finite(leaf)
    ]
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        listed = ", ".join(_shown(name) for name in names[:_NAMED])
        raise CheckpointMismatch(
            f"{origin} holds numbers that are not finite in {listed}{more}; expected finite weights; name "
            "another checkpoint"
        )


def _misfit(name: str, tensor: Tensor, found: Mapping[str, Tensor], source: str) -> str | None:
    if name not in found:
        return f"{name!r} is in the model but not in {source}"
    loaded = found[name]
    if not isinstance(loaded, Tensor):
        return f"{name!r} is {_shown(_described(loaded))} in {source} and a tensor in the model"
    if loaded.shape != tensor.shape:
        shapes = tuple(loaded.shape), tuple(tensor.shape)
        return f"{name!r} has shape {shapes[0]} in {source} and {shapes[1]} in the model"
    if loaded.dtype != tensor.dtype:
        return f"{name!r} has dtype {loaded.dtype} in {source} and {tensor.dtype} in the model"
    return None


def _faults(found: Any, expected: Any, place: str) -> Iterator[str]:
    """Yield what is wrong with a state, in sentences that begin with the place in the tree."""
    return _KINDS.get(type(expected), _leaf_faults)(found, expected, place)


def _leaf_faults(found: Any, expected: Any, place: str) -> Iterator[str]:
    return _rule_faults(found, _rule_like(expected), place)


def _rule_faults(found: Any, expected: Rule, place: str) -> Iterator[str]:
    if not expected.fits(found):
        yield _fault(found, expected.expected, place)


def _either_faults(found: Any, expected: Either, place: str) -> Iterator[str]:
    return iter(()) if fits(found, expected.first) else _faults(found, expected.second, place)


def _dict_faults(found: Any, expected: dict[Any, Any], place: str) -> Iterator[str]:
    return _having_faults(found, Having(expected, others=False), place)


def _having_faults(found: Any, expected: Having, place: str) -> Iterator[str]:
    if not isinstance(found, Mapping):
        yield _fault(found, "a dict", place)
        return
    known = {**expected.optional, **expected.entries}
    for name in expected.entries:
        if name not in found:
            yield f"{_inner(place, name)} is absent; expected it beside {_keys(found)}"
    for name, value in found.items():
        if name in known:
            yield from _faults(value, known[name], _inner(place, name))
        elif not expected.others:
            yield f"{_inner(place, name)} is unknown; expected {_keys(known)}"


def _named_faults(found: Any, expected: Named, place: str) -> Iterator[str]:
    if not isinstance(found, Mapping):
        yield _fault(found, "a dict", place)
        return
    for name, value in found.items():
        if not _is_text(name, expected.pattern):
            yield f"{place} has the key {_shown(repr(name))}; expected names like {expected.pattern}"
        yield from _faults(value, expected.value, _inner(place, name))


def _each_faults(found: Any, expected: Each, place: str) -> Iterator[str]:
    if not isinstance(found, list):
        yield _fault(found, "a list", place)
        return
    for number, item in enumerate(found):
        yield from _faults(item, expected.item, _inner(place, number))


def _sequence_faults(
    found: Any, expected: list[Any] | tuple[Any, ...], place: str
) -> Iterator[str]:
    if type(found) is not type(expected) or len(found) != len(expected):
        yield _fault(found, _described(expected), place)
        return
    for number, (item, other) in enumerate(zip(found, expected, strict=True)):
        yield from _faults(item, other, _inner(place, number))


_KINDS: dict[type, Callable[[Any, Any, str], Iterator[str]]] = {
    Rule: _rule_faults,
    Either: _either_faults,
    Having: _having_faults,
    Named: _named_faults,
    Each: _each_faults,
    dict: _dict_faults,
    list: _sequence_faults,
    tuple: _sequence_faults,
}


def _rule_like(value: Any) -> Rule:
    """Return the rule of values of the same kind."""
    if isinstance(value, Tensor):
        finite = " of finite numbers" if value.is_floating_point() and _is_finite(value) else ""
        return Rule(f"{describe(value)}{finite}", lambda found: _is_like(found, value))
    if isinstance(value, bool):
        return Rule("true or false", lambda found: isinstance(found, bool))
    if isinstance(value, int):
        return whole()
    if isinstance(value, float):
        return Rule(
            "a finite number", lambda found: isinstance(found, float) and math.isfinite(found)
        )
    if isinstance(value, str):
        return Rule("a string", lambda found: isinstance(found, str))
    if value is None:
        return exactly(None)
    raise TypeError(f"{value!r:.{_SHOWN}} is neither a rule nor a part of a state")


def _is_like(found: Any, tensor: Tensor) -> bool:
    """Return whether a value is a tensor of the same form; one that is like a finite one is finite."""
    if not isinstance(found, Tensor) or (found.dtype, found.shape) != (tensor.dtype, tensor.shape):
        return False
    return _is_finite(found) or not _is_finite(tensor)


def _is_finite(tensor: Tensor) -> bool:
    return bool(tensor.isfinite().all())


def _is_text(value: Any, pattern: str) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value, re.DOTALL) is not None


def _fault(found: Any, expected: str, place: str) -> str:
    return f"{place} is {_shown(_described(found))}; expected {expected}"


def _described(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a dict of {len(value)}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    finite = not isinstance(value, Tensor) or _is_finite(value)
    return describe(value) if finite else f"{describe(value)} with numbers that are not finite"


def _keys(entries: Mapping[Any, Any]) -> str:
    return _shown(", ".join(map(str, entries))) or "nothing"


def _inner(place: str, name: object) -> str:
    return f"{place}/{_shown(str(name))}"


def _shown(written: str) -> str:
    """Return foreign text shortened, and without control characters."""
    plain = printable(written[: _SHOWN + 1])
    return plain if len(plain) <= _SHOWN else f"{plain[: _SHOWN - 3]}..."
