"""Audits one training iteration on fake CUDA: what waits, and what crosses devices."""

from unittest import mock

import torch

from navrl.collectors.sync import SyncCollector
from navrl.config.compose import build, compose
from tests.collectors.cuda_audit import DEVICE, Audit, audit

NUM_ENVS, STEPS = 8, 2
OVERRIDES = (
    "env=combat",
    "agent=ppo",
    "compile=off",
    "agent.network.precision=fp32",  # asking the driver for bf16 needs one
    "agent.num_epochs=2",
    "agent.num_minibatches=2",
    "env.sim.tick_s=0.25",
    "env.sim.decision_s=0.5",
)


def build_agent(config, choices, env):
    """Parameters are born on the device, because fake ones cannot move; `choices` is a host read."""
    with (
        torch.device(DEVICE),
        mock.patch("torch.nn.Module.to", lambda module, *_, **__: module),
        mock.patch("navrl.agents.networks.heads.action_choices", return_value=choices),
    ):
        return build(config.agent)(
            observation_spec=env.observation_spec,
            action_spec=env.action_spec,
            device=DEVICE,
            num_iterations=10,
        )


def captured(recorder: Audit, env, rollout) -> dict:
    """A step as a CUDA graph would record it: what it waits for, and the layout of the state around it."""
    recorder.clear()
    states = [env._started()]
    env.step_and_maybe_reset(rollout[:, 0].exclude("next"))
    states.append(env._started())
    layouts = [
        [f"{row.dtype} {tuple(row.shape)} {row.stride()} {row.device}" for row in state]
        for state in states
    ]
    return {"events": list(recorder.events), "layouts": layouts}


def main() -> dict:
    """Controls, then one whole iteration after a first one that may set things up."""
    config = compose("train", OVERRIDES)
    real = build(config.env)(num_envs=1, device="cpu", seed=0)
    choices = real.action_spec.nvec.flatten().tolist()
    parameters: list = []
    with audit(parameters) as recorder:
        env = build(config.env)(num_envs=NUM_ENVS, device=DEVICE, seed=0)
        agent = build_agent(config, choices, env)
        parameters.extend(agent.parameters)
        recorder.truth = False  # nobody is done right after a reset
        collector = SyncCollector(
            env=env, policy=agent.policy, rollout_steps=STEPS, total_frames=9 * NUM_ENVS * STEPS
        )
        iterator = iter(collector)
        agent.update(next(iterator))  # first uses, such as Adam's, are not audited
        recorder.clear()
        rollout = next(iterator)
        collection = {"events": recorder.events, "operations": sorted(recorder.operations)}
        recorder.clear()
        agent.update(rollout)
        update = {"events": recorder.events, "operations": sorted(recorder.operations)}
        step = captured(recorder, env, rollout)
    devices = sorted({str(v.device) for v in rollout.exclude("policy_version").values(True, True)})
    return {"collection": collection, "update": update, "step": step, "devices": devices}
