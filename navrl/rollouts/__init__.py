"""Rollouts: collecting experience and carrying it."""

from navrl.rollouts.episodes import episode_metrics, episode_sums
from navrl.rollouts.sync import SyncCollector

SyncDataCollector = SyncCollector  # the name that TorchRL's own class had before 0.11

__all__ = ["SyncCollector", "SyncDataCollector", "episode_metrics", "episode_sums"]
