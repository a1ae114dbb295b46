"""Policies on the other side cost no host synchronisation: shown on fake CUDA tensors, without a GPU.

That the audit sees what waits is shown in tests/rollouts/test_cuda_audit.py.
"""

import json
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def report():
    """What the audit found, or a skip where this torch cannot be audited."""
    root = __file__.rpartition("tests")[0]
    command = [sys.executable, "-m", "tests.opponents.cuda_seats"]
    done = subprocess.run(
        command, check=False, cwd=root, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    if "unavailable" in found:
        pytest.skip(found["unavailable"])
    return found


@pytest.mark.parametrize(
    ("opponent", "asked"),
    [
        ("crank", []),
        ("checkpoint", 2 * [8]),
        ("league", 2 * [4, 2]),
    ],  # envs, at each of two steps
)
def test_collecting_against_it_never_waits_for_the_device(report, opponent, asked):
    assert report[opponent]["events"] == []
    assert report[opponent]["devices"] == ["cuda:0"]
    assert report[opponent]["asked"] == asked
