"""The content of a rollout file: a rollout as a flat list of tensors and JSON, and back, bit for bit.

"next" nearly always holds the same as the following step holds without it. Of such a key only those rows are
stored in which it differs: the last step, and the steps at which an episode ended.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase
from torch import Tensor

from navrl.storage.blocks import differing_rows
from navrl.storage.header import (
    MAX_DIMENSIONS,
    MAX_TENSORS,
    CorruptFile,
    ForeignFile,
    Row,
    TooLarge,
    is_count,
)

Key = tuple[str, ...]

KIND = "rollout"
NEXT = "next"
_MAX_DEPTH = 50  # names of a key
_FIELDS: dict[str, Any] = {"batch_size": list, "dimensions": list | None, "groups": list}
_FIELDS |= {"values": list, "keys": list, "doubled": list, "kind": str, "iteration": int}


class Packed(NamedTuple):
    """The tensors of a file by readable unique name, and its metadata."""

    tensors: dict[str, Tensor]
    meta: dict[str, Any]


def pack(rollout: TensorDictBase, drop: Collection[Key] = ()) -> Packed:
    """Pack a rollout of batch size [N, T, ...] without the keys in `drop` and all below them."""
    if rollout.batch_dims < 2:
        raise ValueError(
            f"a rollout of batch size {list(rollout.batch_size)} cannot be stored; expected [N, T]: "
            "environments, then steps"
        )
    leaves, values, groups = _walk(rollout.cpu(), (), drop)
    doubled = [key for key in leaves if _may_repeat(leaves, key)]
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


def needed_tensors(meta: Mapping[str, Any], keys: Collection[Key]) -> list[int]:
    """Return the numbers of the tensors that are needed to restore these keys and all below them."""
    held = [tuple(key) for key in meta["keys"]]
    chosen = {key for key in held if _is_below(key, keys)}
    for wanted in keys:
        if not any(_is_below(key, [wanted]) for key in held):
            raise ValueError(
                f"no key {'/'.join(wanted)!r}; there are {', '.join(map('/'.join, held))}"
            )
    doubled = {held[number] for number in meta["doubled"]} & chosen
    chosen |= {key[1:] for key in doubled}
    return [i for i, key in enumerate(held) if key in chosen] + ([len(held)] if doubled else [])


def unpack(
    tensors: Mapping[int, Tensor], meta: Mapping[str, Any], keys: Collection[Key] | None
) -> TensorDict:
    """Return the rollout of these tensors by number, or only `keys` of it; raise ValueError on misfits."""
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
    """Return the nested TensorDicts without tensors; with `held`, only those that these keys need."""
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
    """Return the tensors, the other values, and the batch sizes of the groups below a node."""
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


def _may_repeat(leaves: Mapping[Key, Tensor], key: Key) -> bool:
    if key[0] != NEXT or key[1:2] == (NEXT,):
        return False
    now, after = leaves.get(key[1:]), leaves[key]
    return now is not None and (now.shape, now.dtype) == (after.shape, after.dtype)


def _rows_that_differ(leaves: Mapping[Key, Tensor], doubled: Collection[Key]) -> Tensor:
    """Return numbers n * T + t of the rows in which some "next" is not the following step."""
    first = leaves[next(iter(doubled))]
    differs = torch.zeros(first.shape[:2], dtype=torch.bool)  # (N, T)
    differs[:, -1] = True
    for key in doubled:
        differs[:, :-1] |= differing_rows(leaves[key][:, :-1], leaves[key[1:]][:, 1:])
    return differs.flatten().nonzero().squeeze(1)


def _restored(now: Tensor, stored: Tensor, rows: Tensor) -> Tensor:
    """Return "next": the following steps, and the stored rows in which it differs from them."""
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
    """Name the tensors for people; a key with a slash in it may look like another."""
    tensors: dict[str, Tensor] = {}
    for key, tensor in leaves.items():
        name = "/".join(key) or "rows of next"
        tensors[name if name not in tensors else f"{name}~{len(tensors)}"] = tensor
    return tensors


def check_meta(path: Path, meta: dict[str, Any], rows: Sequence[Row], max_bytes: int) -> None:
    """Raise CorruptFile if the metadata do not fit together or the rollout is larger than `max_bytes`."""
    if meta.get("kind") != KIND:
        raise ForeignFile(path, f"is of kind {meta.get('kind')!r:.40}; expected '{KIND}'")
    if meta.keys() != _FIELDS.keys() or any(not isinstance(meta[k], t) for k, t in _FIELDS.items()):
        raise CorruptFile(path, "header", f"expected {', '.join(_FIELDS)} of a rollout")
    reason = None if is_count(meta["iteration"]) else "the iteration is no count"
    reason = reason or _key_fault(meta) or _value_fault(meta) or _doubled_fault(meta, rows)
    if reason is not None:
        raise CorruptFile(path, "header", f"not a rollout that fits together ({reason})")
    total = sum(row.raw_bytes for row in rows)
    size = {tuple(key): row.raw_bytes for key, row in zip(meta["keys"], rows, strict=False)}
    # In memory these have as many rows as the tensor that they repeat.
    for number in meta["doubled"]:
        total += size[tuple(meta["keys"][number][1:])]
    if total > max_bytes:
        raise TooLarge(path, f"{total:,} bytes of rollout", max_bytes)


def _key_fault(meta: dict[str, Any]) -> str | None:
    pairs = meta["groups"] + meta["values"]
    if len(pairs) > MAX_TENSORS or not all(isinstance(p, list) and len(p) == 2 for p in pairs):
        return "groups and values are not short lists of pairs"
    paths = [*meta["keys"], *(path for path, _ in pairs)]
    if not all(map(_is_path, paths)):
        return "a key is not a short list of names"
    if len({tuple(path) for path in paths}) != len(paths):
        return "a key occurs twice"
    return None


def _value_fault(meta: dict[str, Any]) -> str | None:
    if any(isinstance(value, list | dict) for _, value in meta["values"]):
        return "a value is neither null nor a bool, number or string"
    if not all(map(_is_size, [meta["batch_size"], *(size for _, size in meta["groups"])])):
        return "a batch size is not a list of sizes, of environments and steps first"
    if not all(isinstance(name, str | None) for name in meta["dimensions"] or []):
        return "a dimension is not called by a string or null"
    return None


def _doubled_fault(meta: dict[str, Any], rows: Sequence[Row]) -> str | None:
    keys, doubled = meta["keys"], meta["doubled"]
    if len(rows) != len(keys) + bool(doubled) or len(doubled) > len(keys):
        return "the keys are not those of the tensors"
    shapes = {tuple(key): row.shape for key, row in zip(keys, rows, strict=False)}
    seen: set[int] = set()
    for number in doubled:
        if type(number) is not int or not 0 <= number < len(keys) or number in seen:
            return "a number of what is doubled is not one of a key"
        key = tuple(keys[number])
        # The tensor that it repeats is stored whole, so it is not below "next" itself.
        if key[0] != NEXT or key[1:2] == (NEXT,) or len(shapes.get(key[1:], ())) < 2:
            return f"nothing is there that {'/'.join(key)!r:.200} could repeat"
        seen.add(number)
    return None


def _is_path(path: object) -> bool:
    return (
        isinstance(path, list)
        and 0 < len(path) <= _MAX_DEPTH
        and all(isinstance(name, str) for name in path)
    )


def _is_size(size: object) -> bool:
    return isinstance(size, list) and 2 <= len(size) <= MAX_DIMENSIONS and all(map(is_count, size))
