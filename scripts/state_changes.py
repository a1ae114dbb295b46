"""Changes of a nested state: other kinds, keys, numbers, tensors, lengths and depths."""

import copy
import math
import random
from typing import Any

import torch
from torch import Tensor

NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    7,
    63,
    1000,
    2**31,
    -(2**31),
    2**32,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    -(2**64),
]
NUMBERS += [10**300, 0.0, -0.0, 0.5, 1.5, -1.0, 1e-300, 1e300, math.nan, math.inf, -math.inf]
OTHERS = [
    None,
    True,
    False,
    "",
    "a",
    "latest",
    "../x",
    "\x1b[31m",
    "x" * 300,
    "${oc.env:HOME}",
    "${seed}",
]
OTHERS += [[], {}, (), [None], {"a": 1}, {1: 2}, ("a",), [[]], [1] * 50, {"_target_": "os.system"}]
DTYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
)
SHAPES = ((), (0,), (1,), (2,), (5,), (2, 2), (0, 3), (1, 1, 1), (625,), (3, 1, 2, 1))


def changed(tree: Any, dice: random.Random) -> Any:
    """Return a copy with one to three changes; what is not changed is shared with the tree."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        tree = _with_change(tree, tree, dice)
    return tree


def _with_change(node: Any, root: Any, dice: random.Random) -> Any:
    """Return the node with a change of itself, or of something in it."""
    if isinstance(node, Tensor):
        return _other_tensor(node, dice) if dice.random() < 0.8 else _other(root, dice)
    if not isinstance(node, dict | list | tuple) or not node:
        return _other_value(node, root, dice)
    if node is not root and dice.random() < 0.08:
        return _other(root, dice)
    if dice.random() < 0.25:
        return _with_other_keys(node, root, dice)
    if isinstance(node, dict):
        key = dice.choice(list(node))
        return {**node, key: _with_change(node[key], root, dice)}
    place = dice.randrange(len(node))
    items = [*node]
    items[place] = _with_change(items[place], root, dice)
    return type(node)(items)


def _other_value(value: Any, root: Any, dice: random.Random) -> Any:
    if isinstance(value, int | float) and dice.random() < 0.7:
        near = [value + 1, value - 1, -value, value * 2, float(value), bool(value)]
        near += [int(value)] if math.isfinite(value) else []
        return dice.choice(near if dice.random() < 0.4 else NUMBERS)
    if isinstance(value, str) and dice.random() < 0.3:
        return dice.choice((value.upper(), value[:-1], value + "0", value * 2, f" {value}"))
    return _other(root, dice)


def _other(root: Any, dice: random.Random) -> Any:
    """Return something of another kind, or another part of the tree."""
    kind = dice.randrange(6)
    if kind == 0:
        return dice.choice(NUMBERS)
    if kind == 1:
        return torch.zeros(dice.choice(SHAPES), dtype=dice.choice(DTYPES))
    if kind == 2:
        return _nested(dice.choice((2, 10, 40, 200)), dice)
    if kind == 3:
        return _some_part(root, dice)
    return copy.deepcopy(dice.choice(OTHERS))


def _nested(depth: int, dice: random.Random) -> Any:
    node: Any = 1
    listed = dice.random() < 0.5
    for _ in range(depth):
        node = [node] if listed else {"a": node}
    return node


def _some_part(node: Any, dice: random.Random) -> Any:
    while isinstance(node, dict | list | tuple) and node and dice.random() < 0.7:
        node = dice.choice(list(node.values()) if isinstance(node, dict) else node)
    return node


def _with_other_keys(node: Any, root: Any, dice: random.Random) -> Any:
    """Drop, repeat, rename, exchange, add or shuffle entries."""
    if isinstance(node, dict):
        return dict(_other_entries(list(node.items()), root, dice))
    kinds = (type(node), type(node), type(node), list, tuple)
    return dice.choice(kinds)(_other_items([*node], root, dice))


def _other_entries(pairs: list[Any], root: Any, dice: random.Random) -> list[Any]:
    place, other = dice.randrange(len(pairs)), dice.randrange(len(pairs))
    (key, value), (other_key, other_value) = pairs[place], pairs[other]
    name = dice.choice((f"{key}0", 7, -1, "", "a/b", "snapshot999", "state", str(key)[:-1]))
    rest = pairs[:place] + pairs[place + 1 :]
    return dice.choice(
        (
            rest,
            [*pairs, (name, value)],
            [*rest, (name, value)],
            [*rest, (other_key, value), (key, other_value)],
            [*pairs, (name, _other(root, dice))],
            dice.sample(pairs, len(pairs)),
        )
    )


def _other_items(items: list[Any], root: Any, dice: random.Random) -> list[Any]:
    place = dice.randrange(len(items))
    return dice.choice(
        (
            items[:place] + items[place + 1 :],
            [*items, items[place]],
            items[:place],
            items * dice.choice((2, 9)),
            [*items, _other(root, dice)],
            dice.sample(items, len(items)),
        )
    )


def _other_tensor(tensor: Tensor, dice: random.Random) -> Any:
    """Return a tensor of another dtype, shape or with other numbers; or something near a tensor."""
    kind = dice.randrange(8)
    if kind == 0:
        return tensor.to(dice.choice(DTYPES))
    if kind == 1:
        return tensor.flatten() if tensor.dim() != 1 else tensor.unsqueeze(0)
    if kind == 2:
        return tensor[:-1] if tensor.dim() else tensor.reshape(1)
    if kind == 3:
        return torch.cat([tensor, tensor[:1]]) if tensor.dim() else tensor.expand(2).clone()
    if kind == 4:
        return torch.zeros(dice.choice(SHAPES), dtype=tensor.dtype)
    return _other_numbers(tensor, dice)


def _other_numbers(tensor: Tensor, dice: random.Random) -> Tensor:
    """Return the tensor with another number in one place, or everywhere."""
    if tensor.dtype == torch.bool:
        return ~tensor
    if tensor.is_floating_point():
        value = dice.choice((math.nan, math.inf, -math.inf, -1.0, 0.0, 6e4, -6e4, 0.5))
    else:
        bounds = torch.iinfo(tensor.dtype)
        near = (0, 1, 2, 5, 624, 625, 1000, bounds.max, bounds.min, -1)
        value = min(max(dice.choice(near), bounds.min), bounds.max)
    found = tensor.clone()
    if dice.random() < 0.5 or not tensor.numel():
        return found.fill_(value)
    found.view(-1)[dice.randrange(tensor.numel())] = value
    return found
