"""Drones and users at places that tests choose."""

import torch

from navrl.config.compose import build
from navrl.envs.core.rewards import Transition
from navrl.envs.coverage.sim.advance import served
from navrl.envs.coverage.sim.users import Users
from tests.envs.conftest import configuration

DRONES = [[200.0, 300.0, 100.0], [700.0, 600.0, 120.0]]
USERS = [[250.0, 350.0], [600.0, 500.0], [900.0, 900.0]]
SMALL = ("env.sim.num_drones=2", "env.sim.num_users=3")


def params_of(env="coverage", *overrides):
    """The constants that ship, with these changes."""
    return build(configuration(f"env={env}", *overrides).env.sim).checked()


def rows(places):
    """Places [[x, y, ...]] of one env as rows (axes, drones or users, 1)."""
    return torch.tensor(places, dtype=torch.float32).t().unsqueeze(-1)


def state_at(params, drones, users):
    """The state (.., N) with drones (3, n, N) and users (2, m, N) there."""
    envs = drones.shape[-1]
    shadow = torch.zeros(0, params.num_drones, params.num_users, envs)
    clock, key = torch.zeros(envs, dtype=torch.int32), torch.arange(envs)
    return served(params, drones, Users(users, users[:, :0]), shadow, clock, key)


def standing(params, state):
    """A step in which nothing moves, for reward terms."""
    never = torch.zeros_like(state.step, dtype=torch.bool)
    return Transition(params, state, state, None, never, never)


def reward_of(name):
    """The reward that ships under this name."""
    return build(configuration(f"env={name}").reward)
