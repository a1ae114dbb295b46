"""Hybrid actions, entity sets, teams, and drones with agent=ppo_navrl wait for a GPU once an update."""

import functools

import pytest

from tests.agents import cuda_update
from tests.collectors.cuda_audit import audited

ACTING = {"team": {"max", "argmax"}, "drone": {"convolution", "native_layer_norm"}}


@pytest.fixture(scope="module", params=list(ACTING))
def learner(request):
    """The kind of agent that learns."""
    return request.param


@pytest.fixture(scope="module")
def report(learner):
    """Return the findings of the audit, or skip where this torch cannot be audited."""
    return audited(functools.partial(cuda_update.main, learner))


def test_acting_never_waits_for_the_device(report, learner):
    assert report["devices"] == ["cuda:0"]
    operations = set(report["acting"]["operations"])
    assert {"_standard_gamma", "lgamma"} | ACTING[learner] <= operations
    assert report["acting"]["events"] == []


def test_an_update_reads_the_device_once(report):
    # Densities, entropies and values (of the dead, or in other units), then shuffling and Adam, all ran.
    expected = {"lgamma", "digamma", "randperm", "index_select", "_foreach_norm", "_fused_adam_"}
    assert expected <= set(report["update"]["operations"])
    (event,) = report["update"]["events"]
    assert event.startswith("read: tolist at ")
    assert "navrl/agents/ppo/agent.py" in event
