"""Memory that was freed is used again instead of being mapped anew."""

import os
import platform
import resource
import subprocess
import sys

import pytest

pytestmark = pytest.mark.commands
# Pages that the system hands out while eight blocks of 2 MiB come and go together fifty times.
_PROGRAM = """
import ctypes, resource, sys
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # no huge pages, of which a few would do
from navrl.agents.fast.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
def turns(number):
    for _ in range(number):
        blocks = [ctypes.c_void_p(library.malloc(1 << 21)) for _ in range(8)]
        for block in blocks:
            library.memset(block, 1, 1 << 21)
        for block in blocks:
            library.free(block)
turns(10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
turns(50)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages(how, **settings):
    run = [sys.executable, "-c", _PROGRAM, how]
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run(run, check=True, capture_output=True, text=True, env=plain | settings)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_freed_memory_is_not_mapped_again():
    of_a_turn = 8 * (1 << 21) // resource.getpagesize()
    assert pages("leave") > 25 * of_a_turn
    assert pages("keep") < of_a_turn
    assert pages("keep", MALLOC_TRIM_THRESHOLD_="131072") > 25 * of_a_turn


def test_the_peak_counts_from_what_is_in_use():
    program = """
import torch
from navrl.agents.fast.allocator import keep_freed_memory
from navrl.run.memory import reset_peak, rss_mb
keep_freed_memory()
rows = [torch.ones(1 << 21) for _ in range(50)]
del rows
reset_peak(torch.device("cpu"))
held, peak = rss_mb()
print(peak - held, held)
rows = [torch.ones(1 << 21) for _ in range(20)]
print(rss_mb()[1] - held)
"""
    run = [sys.executable, "-c", program]
    lines = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split("\n")
    assert float(lines[0].split()[0]) < 40.0  # of the 400 MiB that were freed
    assert 150.0 < float(lines[1]) < 200.0  # twenty times 8 MiB
