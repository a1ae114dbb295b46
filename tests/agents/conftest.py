"""A small agent, and rollouts of its own that need no simulator."""

import functools

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Composite, MultiCategorical, Unbounded

from navrl.config import build, compose

NUM_ENVS, STEPS, FEATURES, CHOICES = 4, 6, 3, (3, 2)


@functools.cache
def configuration():
    return compose("train", ["agent=ppo", "compile=off"])


@pytest.fixture(autouse=True)
def _one_seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def make_agent():
    """make_agent(max_kl=None, ...) -> the shipped PPO with small networks and these options."""

    def make(observation_spec=None, action_spec=None, **options):
        agent = build(configuration().agent)
        small = {"hidden_sizes": [8], "activation": "tanh", "precision": "fp32", "max_kl": None}
        return agent(
            observation_spec=observation_spec or spec(),
            action_spec=action_spec or MultiCategorical(list(CHOICES), shape=(NUM_ENVS, 2)),
            device="cpu",
            num_iterations=10,
            **{**small, "num_epochs": 1, "num_minibatches": 1, **options},
        )

    return make


def spec(**leaves):
    """The observation spec of an env with these leaves; by default one vector called ego."""
    leaves = leaves or {"ego": (FEATURES,)}
    unbounded = {name: Unbounded((NUM_ENVS, *shape)) for name, shape in leaves.items()}
    return Composite(observation=Composite(**unbounded, shape=(NUM_ENVS,)), shape=(NUM_ENVS,))


def make_rollout(agent, *, steps=STEPS, spoil=None):
    """(N, T) frames of the agent's own actions; spoil(observations) damages them beforehand."""
    shape = (NUM_ENVS, steps)
    seen = torch.randn(NUM_ENVS, steps + 1, FEATURES)
    if spoil:
        spoil(seen)
    mask = torch.rand(*shape, sum(CHOICES)) < 0.7
    mask[..., [1, 3]] = True
    rollout = TensorDict({"observation": {"ego": seen[:, :-1]}, "action_mask": mask}, shape)
    with torch.no_grad():
        agent.policy(rollout)
    terminated = torch.rand(*shape, 1) < 0.2
    truncated = (torch.rand(*shape, 1) < 0.2) & ~terminated
    rollout["next"] = TensorDict(
        {
            "observation": {"ego": seen[:, 1:]},
            "reward": torch.randn(*shape, 1),
            "terminated": terminated,
            "truncated": truncated,
            "done": terminated | truncated,
        },
        shape,
    )
    return rollout.set_non_tensor("policy_version", agent.policy.version)
