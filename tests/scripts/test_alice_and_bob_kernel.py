"""The yardstick of Alice and Bob: a C kernel that must play the same game."""

import shutil

import pytest
import torch

from kernels.alice_and_bob import GridKernel
from navrl.envs.alice_and_bob.sim import GridParams, advance, everything, initial_state, window

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="the kernel needs gcc")


@needs_gcc
@pytest.mark.parametrize(
    "params", [GridParams(2, 8, 100), pytest.param(GridParams(3, 3, 100), marks=pytest.mark.slow)]
)
def test_the_kernel_is_the_simulator(params):
    draw, gained = torch.Generator().manual_seed(0), 0
    kernel = GridKernel(params)
    state = initial_state(params, torch.arange(512))
    for _ in range(60):
        action = torch.randint(5, (params.num_agents, 512), generator=draw, dtype=torch.int32)
        found = kernel.bound(state, action)()
        state, events = advance(params, state, action)
        assert all(torch.equal(a, b) for a, b in zip(found.state, state, strict=True))
        assert torch.equal(found.gained, events.gained)
        for me, view in enumerate(found.views):
            assert torch.equal(view[:9], window(params, state, me).float())
            assert torch.equal(view[9:], torch.stack([state.row[me], state.column[me]]).float())
        assert torch.equal(found.everything, everything(params, state).float())
        gained += int(events.gained.sum())
    assert gained > 0
