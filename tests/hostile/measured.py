"""Processor time and peak memory of a call, in a fork of this process."""

import os
import pickle
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Refusal(NamedTuple):
    """The error of a call, its seconds of a processor, and the megabytes by which the peak memory rose."""

    error: ValueError | OSError | None
    seconds: float  # of a processor: other tests may run on this machine
    peak_mb: float


def measured(call: Callable[[], object]) -> Refusal:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(write, "wb") as pipe:
                pickle.dump(_called(call), pipe)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write)
    with open(read, "rb") as pipe:
        content = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, "the call failed in another way"
    return pickle.loads(content)


def _called(call: Callable[[], object]) -> Refusal:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before_mb, began, error = _memory_mb("VmRSS"), time.process_time(), None
    try:
        call()
    except (ValueError, OSError) as caught:
        error = caught
    return Refusal(error, time.process_time() - began, _memory_mb("VmHWM") - before_mb)


def _memory_mb(name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024
