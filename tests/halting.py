"""The train command, stopped by a signal as a user would: after how many iterations, the environment says."""

import os
import signal
from unittest import mock

import navrl.train
from navrl.loggers.composite import Loggers

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
