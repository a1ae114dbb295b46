"""Collectors: gather rollouts of a policy in an env."""

from navrl.collectors.compressed import CompressedCollector
from navrl.collectors.folder import FolderCollector
from navrl.collectors.pipelined import PipelinedCollector
from navrl.collectors.ray import RayCollector
from navrl.collectors.stepwise import StepwiseCollector
from navrl.collectors.sync import SyncCollector
from navrl.collectors.tensor_memory import TensorMemory

__all__ = [
    "CompressedCollector",
    "FolderCollector",
    "PipelinedCollector",
    "RayCollector",
    "StepwiseCollector",
    "SyncCollector",
    "TensorMemory",
]
