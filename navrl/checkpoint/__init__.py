"""Checkpoints: one checked container format, saving with retention, and finding what to resume."""

from navrl.checkpoint.background import AsyncSaver
from navrl.checkpoint.container import CorruptFile
from navrl.checkpoint.fits import CheckpointMismatch, check_fits
from navrl.checkpoint.resume import CheckpointNotFound, find
from navrl.checkpoint.rng import rng_state, set_rng_state
from navrl.checkpoint.saver import CheckpointSaver, NullSaver, SaveFailed
from navrl.checkpoint.state import load
from navrl.checkpoint.tree import flatten, unflatten

__all__ = [
    "AsyncSaver",
    "CheckpointMismatch",
    "CheckpointNotFound",
    "CheckpointSaver",
    "CorruptFile",
    "NullSaver",
    "SaveFailed",
    "check_fits",
    "find",
    "flatten",
    "load",
    "rng_state",
    "set_rng_state",
    "unflatten",
]
