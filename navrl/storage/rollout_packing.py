"""A rollout as a flat list of tensors and JSON, and back, bit for bit.

What "next" holds is nearly always what the following step holds without it. Of such a key only the rows are
stored where that is not so: the last step, and where an episode ended.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase
from torch import Tensor

from navrl.storage.rollout_checking import NEXT

Key = tuple[str, ...]
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Packed(NamedTuple):
    """Tensors by readable unique name, and what it takes to find them again."""

    tensors: dict[str, Tensor]
    meta: dict[str, Any]


def pack(rollout: TensorDictBase, drop: Collection[Key] = ()) -> Packed:
    """Everything in a rollout of batch size [N, T, ...] but the keys in `drop` and what is below them."""
    if rollout.batch_dims < 2:
        raise ValueError(
            f"a rollout of batch size {list(rollout.batch_size)} cannot be stored; expected [N, T]: "
            "environments, then steps"
        )
    leaves, values, groups = _walk(rollout.cpu(), (), drop)
    doubled = [key for key in leaves if _repeats(leaves, key)]
    meta: dict[str, Any] = {
        "batch_size": list(rollout.batch_size),
        "dimensions": rollout.names if rollout._has_names() else None,
        "groups": [[list(key), size] for key, size in groups.items()],
        "values": [[list(key), value] for key, value in values.items()],
        "keys": [list(key) for key in leaves],
        "doubled": [list(leaves).index(key) for key in doubled],
    }
    if doubled:
        rows = _rows_that_differ(leaves, doubled)
        leaves |= {key: leaves[key].flatten(0, 1)[rows] for key in doubled}
        leaves[()] = rows
    return Packed(_named(leaves), meta)


def wanted(meta: Mapping[str, Any], keys: Collection[Key]) -> list[int]:
    """The numbers of the tensors that it takes to have these keys, or all that is below them."""
    held = [tuple(key) for key in meta["keys"]]
    chosen = {key for key in held if _is_below(key, keys)}
    for it in keys:
        if not any(_is_below(key, [it]) for key in held):
            raise ValueError(f"no key {'/'.join(it)!r}; there are {', '.join(map('/'.join, held))}")
    doubled = {held[number] for number in meta["doubled"]} & chosen
    chosen |= {key[1:] for key in doubled}
    return [i for i, key in enumerate(held) if key in chosen] + ([len(held)] if doubled else [])


def unpack(
    tensors: Mapping[int, Tensor], meta: Mapping[str, Any], keys: Collection[Key] | None
) -> TensorDict:
    """The rollout of these tensors by number, or what `keys` names of it; ValueError if they do not fit."""
    held = {tuple(key): tensors[i] for i, key in enumerate(meta["keys"]) if i in tensors}
    for number in meta["doubled"]:
        key = tuple(meta["keys"][number])
        if key in held:
            held[key] = _restored(held[key[1:]], held[key], tensors[len(meta["keys"])])
    if keys is not None:
        held = {key: tensor for key, tensor in held.items() if _is_below(key, keys)}
    rollout = _groups(meta, None if keys is None else held)
    for key, tensor in held.items():
        rollout[key] = tensor
    for path, value in meta["values"]:
        rollout.set_non_tensor(tuple(path), value)
    rollout.names = meta["dimensions"]
    return rollout


def _groups(meta: Mapping[str, Any], held: Collection[Key] | None) -> TensorDict:
    """The tree without its leaves; of `held` leaves only, if that is given."""
    size = meta["batch_size"]
    tree = TensorDict({}, batch_size=size)
    for names, batch_size in meta["groups"]:
        path = tuple(names)
        if batch_size[: len(size)] != size:
            raise ValueError(f"{'/'.join(path)} has another batch size than what it is part of")
        if held is None or any(_is_below(key, [path]) for key in held):
            tree[path] = TensorDict({}, batch_size=batch_size)
    return tree


def _is_below(key: Key, places: Collection[Key]) -> bool:
    return any(key[: len(place)] == place for place in places)


def _walk(
    node: TensorDictBase, path: Key, drop: Collection[Key]
) -> tuple[dict[Key, Tensor], dict[Key, Any], dict[Key, list[int]]]:
    """The tensors, the other values, and the batch sizes of the groups below a node."""
    leaves: dict[Key, Tensor] = {}
    values: dict[Key, Any] = {}
    groups: dict[Key, list[int]] = {}
    for name, item in node.items():
        key = (*path, name)
        if key in drop:
            continue
        if isinstance(item, NonTensorData):
            values[key] = _plain(key, item.data)
        elif isinstance(item, Tensor):
            leaves[key] = item.detach()
        elif isinstance(item, TensorDictBase):
            groups[key] = list(item.batch_size)
            inner_leaves, inner_values, inner_groups = _walk(item, key, drop)
            leaves |= inner_leaves
            values |= inner_values
            groups |= inner_groups
        else:
            raise TypeError(f"{'/'.join(key)} is a {type(item).__name__}, which cannot be stored")
    return leaves, values, groups


def _plain(key: Key, value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(
        f"{'/'.join(key)} is a {type(value).__name__}; besides tensors a stored rollout holds None, bool, "
        "int, float and str only; drop it"
    )


def _repeats(leaves: Mapping[Key, Tensor], key: Key) -> bool:
    if key[0] != NEXT or key[1:2] == (NEXT,):
        return False
    now, after = leaves.get(key[1:]), leaves[key]
    return now is not None and (now.shape, now.dtype) == (after.shape, after.dtype)


def _rows_that_differ(leaves: Mapping[Key, Tensor], doubled: Collection[Key]) -> Tensor:
    """Numbers n * T + t of the rows of which some "next" is not the following step, bit for bit."""
    first = leaves[next(iter(doubled))]
    differs = torch.zeros(first.shape[:2], dtype=torch.bool)  # (N, T)
    differs[:, -1] = True
    for key in doubled:
        after, now = _words(leaves[key]), _words(leaves[key[1:]])
        differs[:, :-1] |= (after[:, :-1] != now[:, 1:]).flatten(2).any(2)
    return differs.flatten().nonzero().squeeze(1)


def _words(tensor: Tensor) -> Tensor:
    """Bits, of which a NaN equals itself and two zeros differ; with an axis after N and T."""
    words = tensor.view(_WORDS[tensor.element_size()]) if tensor.dtype != torch.bool else tensor
    return words.unsqueeze(-1)


def _restored(now: Tensor, stored: Tensor, rows: Tensor) -> Tensor:
    """What "next" held: the following steps, and the stored rows where they are something else."""
    fits = rows.dtype == torch.int64 and rows.dim() == 1 and stored.dtype == now.dtype
    if not fits or stored.shape != (*rows.shape, *now.shape[2:]):
        raise ValueError("the rows of next do not fit what they belong to")
    if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < now.shape[0] * now.shape[1]:
        raise ValueError("a row of next lies outside of the rollout")
    after = torch.empty_like(now)
    after[:, :-1] = now[:, 1:]
    after.view(-1, *now.shape[2:])[rows] = stored
    return after


def _named(leaves: Mapping[Key, Tensor]) -> dict[str, Tensor]:
    """The names are for people; a key with a slash in it may look like another."""
    tensors: dict[str, Tensor] = {}
    for key, tensor in leaves.items():
        name = "/".join(key) or "rows of next"
        tensors[name if name not in tensors else f"{name}~{len(tensors)}"] = tensor
    return tensors
