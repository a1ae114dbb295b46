"""Policies on the other side cost no host synchronisation: shown on fake CUDA tensors, without a GPU.

That the audit sees what waits is shown in tests/collectors/test_cuda_audit.py.
"""

import pytest

from tests.collectors.cuda_audit import audited
from tests.envs.combat.opponents import cuda_seats

pytestmark = pytest.mark.commands


@pytest.fixture(scope="module")
def report():
    """Return the result of the audit, or skip where this torch cannot be audited."""
    return audited(cuda_seats.main)


@pytest.mark.parametrize(
    ("opponent", "requested"),
    [("crank", []), ("checkpoint", 2 * [8]), ("league", 2 * [4, 2])],  # envs, at each of two steps
)
def test_collecting_against_it_never_waits_for_the_device(report, opponent, requested):
    assert report[opponent]["events"] == []
    assert report[opponent]["devices"] == ["cuda:0"]
    assert report[opponent]["requested"] == requested
