"""Specs, observations and rollouts of a drone, which need no simulator."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Categorical, Composite, Unbounded

NUM_ENVS, STEPS = 4, 6
STATE, BEAMS, RINGS, OBSTACLES, FEATURES, RANGE_M = 8, 36, 4, 5, 10, 4.0


def drone_specs(num_envs=NUM_ENVS, *, device="cpu"):
    """The observation and action spec."""
    shape, on = (num_envs,), {"device": device}
    seen = Composite(
        state=Unbounded((*shape, STATE), **on),
        lidar=Bounded(0.0, RANGE_M, (*shape, 1, BEAMS, RINGS), **on),
        obstacles=Unbounded((*shape, OBSTACLES, FEATURES), **on),
        obstacles_mask=Categorical(2, shape=(*shape, OBSTACLES), dtype=torch.bool, **on),
        shape=shape,
        **on,
    )
    return Composite(observation=seen, shape=shape, **on), Bounded(-1.0, 1.0, (*shape, 3), **on)


def seen_by(*shape):
    """Random observations of frames (...): mostly free beams, and zeros where there is no obstacle."""
    present = torch.rand(*shape, OBSTACLES) < 0.5
    rows = torch.randn(*shape, OBSTACLES, FEATURES)
    seen = {
        "state": torch.cat([torch.randn(*shape, STATE - 1), 40.0 * torch.rand(*shape, 1)], -1),
        "lidar": (20.0 * torch.rand(*shape, 1, BEAMS, RINGS) - 16.0).clamp_min(0.0),
        "obstacles": torch.where(present.unsqueeze(-1), rows, 0.0),
        "obstacles_mask": present,
    }
    return TensorDict({"observation": seen}, shape)


def make_drone_rollout(agent, num_envs=NUM_ENVS, steps=STEPS, *, reward=4.4):
    """(N, T) frames of the agent's own actions, with rewards of about this size."""
    shape = (num_envs, steps)
    seen = seen_by(num_envs, steps + 1)
    rollout = seen[:, :-1].clone()
    with torch.no_grad():
        agent.policy(rollout)
    terminated = torch.rand(*shape, 1) < 0.1
    truncated = (torch.rand(*shape, 1) < 0.1) & ~terminated
    upcoming = seen[:, 1:].clone().set("reward", reward + torch.randn(*shape, 1))
    flags = {"terminated": terminated, "truncated": truncated, "done": terminated | truncated}
    rollout["next"] = upcoming.update(flags)
    return rollout.set_non_tensor("policy_version", agent.policy.version)


def disturbed(agent, size=0.2):
    """The same agent with other weights everywhere, so that no layer is special."""
    with torch.no_grad():
        for parameter in agent.parameters:
            parameter.add_(size * torch.randn_like(parameter))
    return agent
