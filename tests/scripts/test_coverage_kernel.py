"""The yardstick of drones that serve users: a C kernel that must serve and observe the same."""

import shutil

import pytest
import torch

from kernels.coverage import CoverageKernel
from navrl.config.compose import build
from navrl.envs.core.rewards import Transition
from navrl.envs.coverage.sim.advance import advance, initial_state, links_sinr, served
from tests.envs.conftest import configuration

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="the kernel needs gcc")
NUM_ENVS, STEPS = 512, 10
TIE_DB = 2e-5  # signals nearer than this may be ordered in either way
SMALL = ("num_drones=2", "num_users=7", "radio.max_users=3", "radio.min_sinr_db=3", "users=cluster")


def parts_of(*overrides):
    config = configuration("env=coverage", *overrides).env
    params = build(config.sim).checked()
    return params, build(config.observation), build(config.reward)


def tied(params, state):
    """Envs (N,) with two signals that are the same but for rounding, or one just loud enough."""
    links = links_sinr(params, state.position, state.users.place, state.shadow)
    best = 10.0 * links.amax(0).log10()
    at_the_bar = (best - params.radio.min_sinr_db).abs() < TIE_DB
    return at_the_bar.any(0) | (best.sort(0).values.diff(dim=0) < TIE_DB).any(0)


def check_step(params, observation, reward, found, before, action):
    """Compare one call with the simulator; return the envs (N,) that could be compared."""
    after, moved = advance(params, before, action), found.state
    torch.testing.assert_close(moved.position, after.position, atol=1e-4, rtol=0.0)
    assert torch.equal(moved.step, after.step)
    # From here on at the kernel's own places: a rounding of these moves a body by a part of a cell.
    there = served(params, moved.position, before.users, before.shadow, moved.step, before.key)
    clear = ~tied(params, there)
    for kernels, ours in zip(moved.service, there.service, strict=True):
        torch.testing.assert_close(kernels[:, clear], ours[:, clear], atol=1e-4, rtol=1e-5)
    never = torch.zeros_like(moved.step, dtype=torch.bool)
    total, parts = reward(Transition(params, before, there, None, never, never))
    expected = torch.stack([total, *parts])
    torch.testing.assert_close(found.reward[:, clear], expected[:, clear], atol=1e-5, rtol=0.0)
    rows = observation.rows(params, there)
    assert found.leaves.keys() == rows.keys()
    for name, row in rows.items():
        torch.testing.assert_close(found.leaves[name], row, atol=1e-6, rtol=0.0)
    critic = observation.state_rows(params, there)
    torch.testing.assert_close(found.critic, critic, atol=1e-6, rtol=0.0)
    return after, clear


@needs_gcc
@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param((), marks=pytest.mark.slow, id="shipped"),
        pytest.param(
            (*(f"env.sim.{change}" for change in SMALL), "observation.cells=4"), id="small"
        ),
    ],
)
def test_the_kernel_is_the_simulator(overrides):
    params, observation, reward = parts_of(*overrides)
    draw, full, compared = torch.Generator().manual_seed(0), 0, 0
    kernel = CoverageKernel(params, observation, reward)
    state = initial_state(params, torch.arange(NUM_ENVS))
    for _ in range(STEPS):
        action = 3.0 * torch.rand(3, params.num_drones, NUM_ENVS, generator=draw) - 1.5
        found = kernel.bound(state, action)()
        state, clear = check_step(params, observation, reward, found, state, action)
        full += int((found.state.service.load == params.radio.max_users).sum())
        compared += int(clear.sum())
    assert full > 100  # drones that may have refused somebody
    assert compared > 0.99 * STEPS * NUM_ENVS
