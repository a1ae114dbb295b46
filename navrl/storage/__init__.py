"""Checkpoints and rollouts in one checked file format: write, read, find and verify."""

import importlib
from typing import TYPE_CHECKING, Any

from navrl.storage.find import find

if TYPE_CHECKING:
    from navrl.storage.async_saver import AsyncSaver
    from navrl.storage.checkpoint import load
    from navrl.storage.header import CorruptFile
    from navrl.storage.rollouts import NullRollouts, RolloutStorage, load_rollout
    from navrl.storage.saver import CheckpointSaver, NullSaver

__all__ = [
    "AsyncSaver",
    "CheckpointSaver",
    "CorruptFile",
    "NullRollouts",
    "NullSaver",
    "RolloutStorage",
    "find",
    "load",
    "load_rollout",
]

_PLACES = {
    "AsyncSaver": "async_saver",
    "CheckpointSaver": "saver",
    "CorruptFile": "header",
    "NullRollouts": "rollouts",
    "NullSaver": "saver",
    "RolloutStorage": "rollouts",
    "load": "checkpoint",
    "load_rollout": "rollouts",
}


def __getattr__(name: str) -> Any:
    """Import on first use: what lists runs needs no torch, which takes seconds."""
    if name not in _PLACES:
        raise AttributeError(f"module 'navrl.storage' has no attribute {name!r}")
    return getattr(importlib.import_module(f"navrl.storage.{_PLACES[name]}"), name)
