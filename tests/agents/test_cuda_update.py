"""Hybrid actions, entity sets and teams wait for a GPU no more often than discrete actions do."""

import json
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def report():
    """What the audit found, or a skip where this torch cannot be audited."""
    root = __file__.rpartition("tests")[0]
    command = [sys.executable, "-m", "tests.agents.cuda_update"]
    done = subprocess.run(
        command, check=False, cwd=root, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    if "unavailable" in found:
        pytest.skip(found["unavailable"])
    return found


def test_acting_never_waits_for_the_device(report):
    assert report["devices"] == ["cuda:0"]
    assert {"_standard_gamma", "lgamma", "amax", "gather"} <= set(report["acting"]["operations"])
    assert report["acting"]["events"] == []


def test_an_update_of_a_team_reads_the_device_once(report):
    # Densities, entropies and the values of the dead, then shuffling and Adam, all ran.
    expected = {"lgamma", "digamma", "randperm", "index_select", "_foreach_norm", "_fused_adam_"}
    assert expected <= set(report["update"]["operations"])
    (event,) = report["update"]["events"]
    assert event.startswith("read: tolist at ")
    assert "navrl/agents/ppo.py" in event
