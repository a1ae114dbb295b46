"""Hybrid actions, entity sets, teams, and drones with agent=ppo_navrl wait for a GPU once an update."""

from unittest import mock

import pytest
import torch

from navrl.config.compose import build, compose
from tests.agents.drone import drone_specs, make_drone_rollout
from tests.agents.squad import make_team_rollout, squad_specs
from tests.collectors.cuda_audit import DEVICE, audit, audited

pytestmark = pytest.mark.commands
OVERRIDES = (
    *("compile=off", "agent.network.precision=fp32", "agent.num_epochs=2"),
    *("agent.num_minibatches=4", "agent.accumulate=2"),
)
LEARNERS = {
    "team": ("ppo", lambda: squad_specs(4, 3, device=DEVICE), make_team_rollout),
    "drone": ("ppo_navrl", lambda: drone_specs(device=DEVICE), make_drone_rollout),
}
ACTING = {"team": {"max", "argmax"}, "drone": {"convolution", "native_layer_norm"}}


def learn(learner: str) -> dict:
    """Return the events of acting and learning, after a first update that may set things up."""
    name, specs, make_rollout = LEARNERS[learner]
    config, parameters = compose("train", [f"agent={name}", *OVERRIDES]), []
    with audit(parameters) as recorder, torch.device(DEVICE):
        observation, action = specs()
        # Parameters are born on the device, because fake ones cannot move.
        with mock.patch("torch.nn.Module.to", lambda module, *_, **__: module):
            agent = build(config.agent)(
                observation_spec=observation, action_spec=action, device=DEVICE, num_iterations=10
            )
        parameters.extend(agent.parameters)
        agent.update(make_rollout(agent))
        recorder.clear()
        rollout = make_rollout(agent)
        acting = {"events": recorder.events, "operations": sorted(recorder.operations)}
        recorder.clear()
        agent.update(rollout)
        update = {"events": recorder.events, "operations": sorted(recorder.operations)}
    devices = sorted({str(v.device) for v in rollout.exclude("policy_version").values(True, True)})
    return {"acting": acting, "update": update, "devices": devices}


def main() -> dict:
    """Return the findings for every learner."""
    return {learner: learn(learner) for learner in LEARNERS}


@pytest.fixture(scope="module")
def reports():
    """Return the findings of the audit, or skip where this torch cannot be audited."""
    return audited(main)


@pytest.mark.parametrize("learner", LEARNERS)
def test_acting_never_waits_for_the_device(reports, learner):
    report = reports[learner]
    assert report["devices"] == ["cuda:0"]
    operations = set(report["acting"]["operations"])
    assert {"randn", "lgamma"} | ACTING[learner] <= operations
    assert report["acting"]["events"] == []


@pytest.mark.parametrize("learner", LEARNERS)
def test_an_update_reads_the_device_once(reports, learner):
    # Densities, entropies and values (of the dead, or in other units), then shuffling and Adam, all ran.
    expected = {"lgamma", "digamma", "randperm", "index_select", "sqrt", "_fused_adam_"}
    assert expected <= set(reports[learner]["update"]["operations"])
    (event,) = reports[learner]["update"]["events"]
    assert event.startswith("read: tolist at ")
    assert "navrl/agents/ppo/agent.py" in event
