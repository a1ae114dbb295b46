"""A small agent, and rollouts of its own that need no simulator."""

import dataclasses
import functools

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Categorical, Composite, MultiCategorical, Unbounded

from navrl.agents.ppo.update import LOSS_METRICS
from navrl.config.compose import build, compose
from tests.agents import drone, squad

NUM_ENVS, STEPS, FEATURES, CHOICES = 4, 6, 3, (3, 2)


@functools.cache
def configuration(agent="ppo"):
    return compose("train", [f"agent={agent}", "compile=off"])


@pytest.fixture(autouse=True)
def _one_seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def make_agent():
    """make_agent(max_kl=None, ...) -> the shipped PPO with small networks and these options."""

    def make(observation_spec=None, action_spec=None, **options):
        small = {
            "hidden_sizes": [8],
            "entity_sizes": [4],
            "activation": "tanh",
            "precision": "fp32",
        }
        return built(
            "ppo",
            observation_spec=observation_spec or spec(),
            action_spec=action_spec or MultiCategorical(list(CHOICES), shape=(NUM_ENVS, 2)),
            device="cpu",
            num_iterations=10,
            **{**small, "max_kl": None, "num_epochs": 1, "num_minibatches": 1, **options},
        )

    return make


def built(name, **options):
    """The shipped agent with these options, each named without its group."""
    agent = build(configuration(name).agent)
    groups = {group: agent.keywords[group] for group in ("loss", "optimizer", "network")}
    for group, value in groups.items():
        here = {key: options.pop(key) for key in [*options] if hasattr(value, key)}
        replace = (
            value._replace if group != "network" else functools.partial(dataclasses.replace, value)
        )
        groups[group] = replace(**here)
    return agent(**groups, **options)


@pytest.fixture
def make_squad_agent(make_agent):
    """make_squad_agent(num_agents=3, mortal=True, ...) -> a small PPO for a squad."""

    def make(num_agents=squad.AGENTS, *, mortal=True, **options):
        observation, action = squad.squad_specs(squad.NUM_ENVS, num_agents, mortal=mortal)
        return make_agent(observation_spec=observation, action_spec=action, **options)

    return make


@pytest.fixture
def make_navrl_agent():
    """make_navrl_agent(max_kl=None, ...) -> the shipped agent=ppo_navrl with these options."""

    def make(num_iterations=10, **options):
        observation, action = drone.drone_specs()
        return built(
            "ppo_navrl",
            observation_spec=observation,
            action_spec=action,
            device="cpu",
            num_iterations=num_iterations,
            **{"num_epochs": 1, "num_minibatches": 1, **options},
        )

    return make


def spec(*, masked=True, **leaves):
    """The observation spec of an env with these leaves, shapes or bool specs; by default a vector ego."""
    leaves = {
        name: Unbounded((NUM_ENVS, *leaf)) if isinstance(leaf, tuple) else leaf
        for name, leaf in (leaves or {"ego": (FEATURES,)}).items()
    }
    mask = {"action_mask": flag(sum(CHOICES))} if masked else {}
    return Composite(observation=Composite(**leaves, shape=(NUM_ENVS,)), **mask, shape=(NUM_ENVS,))


def entities(name, number, features):
    """The two leaves of a set of entities."""
    return {name: (number, features), f"{name}_mask": flag(number)}


def flag(*shape):
    """A bool leaf."""
    return Categorical(2, shape=(NUM_ENVS, *shape), dtype=torch.bool)


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


def loss_of(agent, flat):
    """The loss of all rows, and its metrics by name."""
    loss, metrics = agent.steps.gradients.loss(flat)
    return loss, dict(zip(LOSS_METRICS, metrics, strict=True))


def one_step(agent, flat):
    """A gradient step along all rows; whether learning stopped, and the row of metrics."""
    found = agent.steps.gradients.of(flat)(torch.arange(flat.numel()))
    return agent.steps.step(found, torch.tensor(False))
