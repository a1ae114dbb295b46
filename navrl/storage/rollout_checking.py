"""Whether the metadata of a rollout can be relied on, before anything is made from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from navrl.storage.container import MAX_DIMENSIONS, MAX_TENSORS, CorruptFile, ForeignFile, Row

KIND = "rollout"
NEXT = "next"
_MAX_DEPTH = 50  # names of a key
_LARGEST = 2**62
_FIELDS: dict[str, Any] = {"batch_size": list, "dimensions": list | None, "groups": list}
_FIELDS |= {"values": list, "keys": list, "doubled": list, "kind": str, "iteration": int}


def check_meta(path: Path, meta: dict[str, Any], rows: Sequence[Row], max_bytes: int) -> None:
    """CorruptFile about metadata that do not fit together, or of a rollout larger than `max_bytes`."""
    if meta.get("kind") != KIND:
        raise ForeignFile(path, f"is of kind {meta.get('kind')!r:.40}; expected '{KIND}'")
    if meta.keys() != _FIELDS.keys() or any(not isinstance(meta[k], t) for k, t in _FIELDS.items()):
        raise CorruptFile(path, "header", f"expected {', '.join(_FIELDS)} of a rollout")
    reason = _key_fault(meta) or _value_fault(meta) or _doubled_fault(meta, rows)
    if reason is not None:
        raise CorruptFile(path, "header", f"not a rollout that fits together ({reason})")
    total = sum(row.raw_bytes for row in rows)
    size = {tuple(key): row.raw_bytes for key, row in zip(meta["keys"], rows, strict=False)}
    for number in meta["doubled"]:  # a few rows in the file stand for as much as they belong to
        total += size[tuple(meta["keys"][number][1:])]
    if total > max_bytes:
        raise CorruptFile(
            path, "length", f"{total:,} bytes of rollout, at most {max_bytes:,} are read"
        )


def _key_fault(meta: dict[str, Any]) -> str | None:
    pairs = meta["groups"] + meta["values"]
    if len(pairs) > MAX_TENSORS or not all(isinstance(it, list) and len(it) == 2 for it in pairs):
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
        # What it repeats is stored whole: it is none of "next" itself.
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
    return (
        isinstance(size, list)
        and 2 <= len(size) <= MAX_DIMENSIONS
        and all(type(count) is int and 0 <= count <= _LARGEST for count in size)
    )
