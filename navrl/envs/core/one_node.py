"""Functions that a compiler takes as one operation instead of interpreting their Python every time."""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_as_one_node: Any = torch.compiler.allow_in_graph  # it is not annotated
_known: list[str] = []


def one_node(function: Callable[..., Any], *taken: type) -> Callable[..., Any]:
    """The function, whose arguments and results are made of tensors, numbers and the classes `taken`.

    torch keeps no graph that calls what it does not know, so `cacheable` introduces it.
    """
    named: tuple[Any, ...] = (function, *taken)
    _known.extend(f"{each.__module__}.{each.__qualname__}" for each in named)
    result: Callable[..., Any] = _as_one_node(function)
    return result


def cacheable() -> dict[str, str]:
    """What graphs that are kept on disk may call, and the state of the source that says what it does."""
    return dict.fromkeys(_known, _source_hash())


@functools.cache
def _source_hash() -> str:
    """Of all simulators: they import nothing else but torch."""
    envs = Path(__file__).parents[1]
    files = sorted(
        file for file in envs.rglob("*.py") if {"core", "sim"} & {*file.parts, file.stem}
    )
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
