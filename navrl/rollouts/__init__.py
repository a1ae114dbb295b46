"""Rollouts: collecting experience and carrying it."""

from navrl.rollouts.sync import SyncCollector, SyncCollector as SyncDataCollector

__all__ = ["SyncCollector", "SyncDataCollector"]
