"""On a GPU the coordinator runs in every step: reading whether a decision is due would wait."""

from tests.agents.hmasd import cuda_collecting
from tests.collectors.cuda_audit import audited


def test_collecting_never_waits_for_the_device():
    report = audited(cuda_collecting.main)
    assert report["devices"] == ["cuda:0"]
    assert {"exponential_", "where", "stack", "embedding"} <= set(report["operations"])
    assert report["events"] == []
