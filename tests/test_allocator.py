"""Memory that was freed is used again instead of being mapped anew."""

import platform
import resource
import subprocess
import sys

import pytest

# Pages that the system hands out while eight blocks of 2 MiB come and go together fifty times.
_PROGRAM = """
import ctypes, resource, sys
from navrl.allocator import keep_freed_memory
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


def pages(how):
    run = [sys.executable, "-c", _PROGRAM, how]
    return int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_freed_memory_is_not_mapped_again():
    of_a_turn = 8 * (1 << 21) // resource.getpagesize()
    assert pages("leave") > 25 * of_a_turn
    assert pages("keep") < of_a_turn
