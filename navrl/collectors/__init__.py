"""Collect rollouts of a policy in an env."""

from navrl.collectors.automatic import automatic
from navrl.collectors.chunked import ChunkedCollector, Compressed, OnHost, Plain
from navrl.collectors.memory import TensorMemory
from navrl.collectors.pipelined import PipelinedCollector
from navrl.collectors.sync import SyncCollector

__all__ = [
    "ChunkedCollector",
    "Compressed",
    "OnHost",
    "PipelinedCollector",
    "Plain",
    "SyncCollector",
    "TensorMemory",
    "automatic",
]
