"""Memory that was freed is used again instead of being mapped anew."""

import os
import platform
import resource
import subprocess
import sys

import pytest

pytestmark = pytest.mark.commands
# Pages that the system hands out while blocks come and go together fifty times.
_PROGRAM = """
import ctypes, resource, sys
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # no huge pages, of which a few would do
from navrl.agents.fast.allocator import keep_freed_memory
NUMBER, SIZE = int(sys.argv[2]), int(sys.argv[3])
if sys.argv[1] == "keep":
    keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
def turns(number):
    for _ in range(number):
        blocks = [ctypes.c_void_p(library.malloc(SIZE)) for _ in range(NUMBER)]
        for block in blocks:
            library.memset(block, 1, SIZE)
        for block in blocks:
            library.free(block)
turns(10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
turns(50)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages(how, number, size, **settings):
    run = [sys.executable, "-c", _PROGRAM, how, str(number), str(size)]
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run(run, check=True, capture_output=True, text=True, env=plain | settings)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize(("number", "size"), [(8, 1 << 21), (1, 5 << 23)])  # 40 MiB: above 32
def test_freed_memory_is_not_mapped_again(number, size):
    of_a_turn = number * size // resource.getpagesize()
    assert pages("leave", number, size) > 25 * of_a_turn
    assert pages("keep", number, size) < of_a_turn
    kept_less = {"MALLOC_TRIM_THRESHOLD_": "131072"}
    assert pages("keep", number, size, **kept_less) > 25 * of_a_turn


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
