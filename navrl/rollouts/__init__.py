"""Rollouts: collecting experience and carrying it."""

from navrl.rollouts.automatic import automatic
from navrl.rollouts.chunked import ChunkedCollector, Compressed, OnHost, Plain
from navrl.rollouts.episodes import episode_metrics, episode_sums
from navrl.rollouts.memory import TensorMemory
from navrl.rollouts.pipelined import PipelinedCollector
from navrl.rollouts.storage import NullRollouts, RolloutStorage, load_rollout
from navrl.rollouts.sync import SyncCollector

SyncDataCollector = SyncCollector  # the name that TorchRL's own class had before 0.11

__all__ = [
    "ChunkedCollector",
    "Compressed",
    "NullRollouts",
    "OnHost",
    "PipelinedCollector",
    "Plain",
    "RolloutStorage",
    "SyncCollector",
    "SyncDataCollector",
    "TensorMemory",
    "automatic",
    "episode_metrics",
    "episode_sums",
    "load_rollout",
]
