"""A nested state as a flat list of tensors and a JSON skeleton, and back.

In a skeleton None, bool, int, finite float, str and list stand for themselves; an object with one
key stands for the rest: {"tensor": number}, {"tuple": [...]}, {"dict": [[key, value], ...]} and
{"float": "inf"}. Tensors are found by number, so keys may hold any character.
"""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

MAX_DEPTH = 50  # a dict costs three levels of JSON, whose parser stops near 1000
MAX_INT_BITS = 1024
_ROOT = "state"


def flatten(tree: Any) -> tuple[dict[str, Tensor], Any]:
    """Return the tensors by readable unique name, in the order of their numbers, and the skeleton."""
    tensors: dict[str, Tensor] = {}
    skeleton = _flatten(tree, (), tensors)
    return tensors, skeleton


def unflatten(tensors: Mapping[str, Tensor], skeleton: Any) -> Any:
    """Return the tree that was flattened (a NamedTuple as a tuple); raise ValueError if malformed."""
    pending = dict(enumerate(tensors.values()))
    tree = _unflatten(skeleton, pending, 0)
    if pending:
        raise ValueError(f"{len(pending)} tensors have no place in the tree")
    return tree


def _flatten(value: Any, path: tuple[str, ...], tensors: dict[str, Tensor]) -> Any:
    if len(path) > MAX_DEPTH:
        raise ValueError(f"{_name(path)} is nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | float):
        return _flatten_number(value, path)
    if isinstance(value, Tensor):
        tensors[_unused(_name(path), tensors)] = value
        return {"tensor": len(tensors) - 1}
    if isinstance(value, dict):
        pairs = [(_key(key, path), child) for key, child in value.items()]
        return {"dict": [[k, _flatten(child, (*path, str(k)), tensors)] for k, child in pairs]}
    if isinstance(value, list | tuple):
        items = [_flatten(child, (*path, str(i)), tensors) for i, child in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    raise TypeError(
        f"{_name(path)} is a {type(value).__module__}.{type(value).__qualname__}; a checkpoint "
        "holds dict, list, tuple, Tensor, None, bool, int, float and str only"
    )


def _flatten_number(value: float, path: tuple[str, ...]) -> Any:
    if isinstance(value, int):
        if value.bit_length() > MAX_INT_BITS:
            raise ValueError(f"{_name(path)} is an int of more than {MAX_INT_BITS} bits")
        return int(value)
    # JSON has no word for these; repr of a finite float reads back to the same bits.
    return float(value) if math.isfinite(value) else {"float": repr(float(value))}


def _key(key: object, path: tuple[str, ...]) -> str | int:
    if isinstance(key, str):
        return str(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return int(key)
    raise TypeError(f"{_name(path)} has the key {key!r}; keys are str or int")


def _name(path: tuple[str, ...]) -> str:
    return "/".join(path) or _ROOT


def _unused(name: str, tensors: Mapping[str, Tensor]) -> str:
    # {"a/b": t} and {"a": {"b": t}} read alike; the number in the table is free of such clashes.
    return name if name not in tensors else f"{name}~{len(tensors)}"


def _unflatten(node: Any, pending: dict[int, Tensor], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, list):
        return [_unflatten(child, pending, depth + 1) for child in node]
    if isinstance(node, dict):
        return _unflatten_object(node, pending, depth)
    if isinstance(node, int) and node.bit_length() > MAX_INT_BITS:
        raise ValueError(f"an int of more than {MAX_INT_BITS} bits")
    if isinstance(node, float) and not math.isfinite(node):  # JSON's 1e999
        raise ValueError("a number that no float holds")
    return node


def _unflatten_object(node: dict[str, Any], pending: dict[int, Tensor], depth: int) -> Any:
    if len(node) != 1:
        raise ValueError(f"expected an object with one key, got {len(node)}")
    ((kind, content),) = node.items()
    if kind == "tensor":
        return _take(content, pending)
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "tuple" and isinstance(content, list):
        return tuple(_unflatten(child, pending, depth + 1) for child in content)
    if kind == "dict" and isinstance(content, list):
        return _unflatten_dict(content, pending, depth)
    raise ValueError(f"unknown node {kind!r:.40}")


def _take(number: object, pending: dict[int, Tensor]) -> Tensor:
    if type(number) is not int or number not in pending:
        raise ValueError(f"tensor {number!r:.40} is absent or used twice")
    return pending.pop(number)


def _unflatten_dict(pairs: list[Any], pending: dict[int, Tensor], depth: int) -> dict[Any, Any]:
    tree: dict[Any, Any] = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) not in (str, int):
            raise ValueError("a dict entry is not a pair of a key and a value")
        if pair[0] in tree:
            raise ValueError(f"the key {pair[0]!r:.40} occurs twice")
        tree[pair[0]] = _unflatten(pair[1], pending, depth + 1)
    return tree
