"""Audits a team's policy and update on fake CUDA and prints what it found as JSON; a program of its own,
because the audit changes the process it runs in.
"""

import json
import sys
from unittest import mock

import torch

from navrl.config import build, compose
from tests.agents.squad import make_team_rollout, squad_specs
from tests.rollouts.cuda_audit import DEVICE, UnavailableError, audit

OVERRIDES = ("agent=ppo", "compile=off", "agent.precision=fp32", "agent.num_minibatches=4")


def main() -> dict:
    """What acting and learning did, after a first update that may set things up."""
    config, parameters = compose("train", OVERRIDES), []
    with audit(parameters) as recorder, torch.device(DEVICE):
        observation, action = squad_specs(4, 3, device=DEVICE)
        # Parameters are born on the device, because fake ones cannot move.
        with mock.patch("torch.nn.Module.to", lambda module, *_, **__: module):
            agent = build(config.agent)(
                observation_spec=observation, action_spec=action, device=DEVICE, num_iterations=10
            )
        parameters.extend(agent.parameters)
        agent.update(make_team_rollout(agent))
        recorder.clear()
        rollout = make_team_rollout(agent)
        acting = {"events": recorder.events, "operations": sorted(recorder.operations)}
        recorder.clear()
        agent.update(rollout)
        update = {"events": recorder.events, "operations": sorted(recorder.operations)}
    devices = sorted({str(v.device) for v in rollout.exclude("policy_version").values(True, True)})
    return {"acting": acting, "update": update, "devices": devices}


if __name__ == "__main__":
    try:
        report = main()
    except UnavailableError as reason:
        report = {"unavailable": str(reason)}
    sys.stdout.write(json.dumps(report))
