"""Checkpoints and rollouts in one checked file format: write, read, find and verify."""

from navrl.storage.async_saver import AsyncSaver
from navrl.storage.checkpoint import load
from navrl.storage.find import find
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
