"""An iteration on a GPU reads the device once: shown on fake CUDA tensors, without a GPU."""

import pytest

from tests.collectors import cuda_iteration
from tests.collectors.cuda_audit import audited

pytestmark = pytest.mark.commands


@pytest.fixture(scope="module")
def report():
    """Return the findings of the audit, or skip where this torch cannot be audited."""
    return audited(cuda_iteration.main)


def test_collecting_a_rollout_never_waits_for_the_device(report):
    assert report["devices"] == ["cuda:0"]
    assert {"rand", "where", "stack"} <= set(report["collection"]["operations"])
    assert report["collection"]["events"] == []


def test_a_step_can_be_captured_in_a_cuda_graph(report):
    # A graph is replayed on the same memory: nothing may wait, and a state must fit where the last one was.
    assert report["step"]["events"] == []
    before, after = report["step"]["layouts"]
    assert before == after
    assert all(row.endswith("cuda:0") for row in after)


def test_an_update_reads_the_device_once(report):
    # Shuffling, values and losses, the norm for clipping, and Adam all ran.
    expected = {"randperm", "index_select", "mse_loss", "arange", "sqrt", "_fused_adam_"}
    assert expected <= set(report["update"]["operations"])
    (event,) = report["update"]["events"]
    assert event.startswith("read: tolist at ")
    assert "navrl/agents/ppo/agent.py" in event
