"""Time `import navrl`, and navrl.load of a policy until its first action, each in new interpreters.

.venv/bin/python scripts/bench_load.py zoo:combat-scripts
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

_IMPORT = "import navrl"
_FIRST_ACTION = """
import sys, numpy, navrl
policy = navrl.load(sys.argv[1])
policy.act({name: numpy.zeros(shape) for name, shape in policy.observation.items()})
"""


class Seconds(NamedTuple):
    """The time of a program; beside other work only the processor's says something."""

    wall: float
    processor: float


def main() -> None:
    """Print the medians, from the start of the interpreter to its end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    programs = {
        "nothing": "",
        "import navrl": _IMPORT,
        "import torchrl.envs": "import torchrl.envs",
        f"first action of {options.policy}": _FIRST_ACTION,
    }
    for name, program in programs.items():
        wall, processor = median(program, options)
        print(f"{name:<40} {wall:6.2f} s, of the processor {processor:5.2f} s")


def median(program: str, options: argparse.Namespace) -> Seconds:
    """Return the medians of several runs of a program; the first fills the cache of files."""
    found = [once(program, options.policy) for _ in range(options.repeats + 1)][1:]
    return Seconds(*map(statistics.median, zip(*found, strict=True)))


def once(program: str, policy: str) -> Seconds:
    """Run a program in an interpreter of its own."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", program, policy])
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("the program failed")
    return Seconds(time.perf_counter() - began, used.ru_utime + used.ru_stime)


if __name__ == "__main__":
    main()
