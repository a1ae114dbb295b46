"""Destinations of metrics: metrics.jsonl is the record, everything else mirrors it."""

from navrl.loggers.jsonl import read_metrics
from navrl.loggers.null import NullLogger
from navrl.loggers.tensorboard import TensorBoardLogger
from navrl.loggers.wandb import WandbLogger

__all__ = ["NullLogger", "TensorBoardLogger", "WandbLogger", "read_metrics"]
