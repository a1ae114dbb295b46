"""On a GPU the coordinator runs in every step: reading whether a decision is due would wait."""

from unittest import mock

import pytest
import torch

from navrl.collectors.sync import SyncCollector
from navrl.config.compose import build, compose
from tests.collectors.cuda_audit import DEVICE, audit, audited
from tests.collectors.cuda_iteration import build_agent

NUM_ENVS, STEPS = 8, 3
OVERRIDES = ("env=alice_and_bob", "agent=hmasd", "compile=off", "agent.k=2")


def main() -> dict:
    """A rollout after a first one that may set things up."""
    config = compose("train", OVERRIDES)
    parameters: list = []
    with audit(parameters) as recorder:
        env = build(config.env)(num_envs=NUM_ENVS, device=DEVICE, seed=0)
        with mock.patch("navrl.agents.hmasd.low_level.initial_biases", _zeros):  # asks the host
            agent = build_agent(config, [5], env)
        parameters.extend(agent.parameters)
        recorder.truth = False  # nobody is done right after a reset
        collector = SyncCollector(
            env=env, policy=agent.policy, rollout_steps=STEPS, total_frames=9 * NUM_ENVS * STEPS
        )
        rollouts = iter(collector)
        next(rollouts)
        recorder.clear()
        rollout = next(rollouts)
        events, operations = recorder.events, sorted(recorder.operations)
    devices = sorted({str(v.device) for v in rollout.exclude("policy_version").values(True, True)})
    return {"events": events, "operations": operations, "devices": devices}


def _zeros(kind, number, std, head):
    return torch.zeros(number, head.outputs)


@pytest.mark.commands
def test_collecting_never_waits_for_the_device():
    report = audited(main)
    assert report["devices"] == ["cuda:0"]
    assert {"exponential_", "where", "stack", "embedding"} <= set(report["operations"])
    assert report["events"] == []
