"""Sinks for metrics: metrics.jsonl is the record, everything else mirrors it."""

from navrl.loggers.base import Logger, MirrorFactory, NullLogger
from navrl.loggers.composite import Loggers
from navrl.loggers.console import ConsoleLogger
from navrl.loggers.jsonl import JsonlLogger, read_metrics
from navrl.loggers.tensorboard import TensorBoardLogger
from navrl.loggers.wandb import WandbLogger

__all__ = [
    "ConsoleLogger",
    "JsonlLogger",
    "Logger",
    "Loggers",
    "MirrorFactory",
    "NullLogger",
    "TensorBoardLogger",
    "WandbLogger",
    "read_metrics",
]
