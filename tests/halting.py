"""The train command, stopped by a signal as a user would, and the numbers that a resume repeats."""

import os
import signal
from unittest import mock

import navrl.train
from navrl.loggers.composite import Loggers
from navrl.loggers.jsonl import read_metrics

STOP_AFTER = "STOP_AFTER"


def train_and_halt():
    """The train command; SIGTERM comes while iteration STOP_AFTER is logged."""
    log = Loggers.log

    def stopping(self, metrics, *, iteration, frames):
        log(self, metrics, iteration=iteration, frames=frames)
        if iteration == int(os.environ.get(STOP_AFTER, "-1")):
            os.kill(os.getpid(), signal.SIGTERM)

    with mock.patch.object(Loggers, "log", stopping):
        navrl.train.main()


def untimed_rows(run):
    """Return the rows of metrics.jsonl without times, memory and the counters of the saver."""
    untimed = ("time/", "memory/", "saver/")
    rows = read_metrics(run / "metrics.jsonl")
    return [{k: v for k, v in row.items() if not k.startswith(untimed)} for row in rows]
