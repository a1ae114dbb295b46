"""The yardstick of air combat: a C kernel that must play the same fight."""

import shutil

import pytest
import torch

from bench_simulator import measure, shipped_params
from kernels.combat import BLOCK, Kernel, check_agreement, random_opening, random_orders
from navrl.envs.combat.sim.advance import advance

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="the kernel needs gcc")


@needs_gcc
def test_the_kernel_is_the_simulator_in_decisions_with_launches_and_hits():
    params = shipped_params()
    seen = check_agreement(Kernel(params), params, decisions=50)
    assert seen["decisions"] == 50 * 4 * BLOCK
    assert seen["hit"] > 50


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize(
    "change",
    [{"navigation_gain": 3.95}, {"self_destruct_speed_mps": 205.0}, {"ammunition": 1}],
    ids=lambda change: next(iter(change)),
)
def test_another_constant_is_noticed(change):
    params = shipped_params()
    with pytest.raises(SystemExit, match="the kernel is not the simulator"):
        check_agreement(Kernel(params._replace(**change)), params, decisions=50)


@pytest.mark.slow
@needs_gcc
def test_the_kernel_leaves_its_inputs_alone_and_repeats_itself():
    params, draw = shipped_params(), torch.Generator().manual_seed(3)
    state, action = random_opening(params, BLOCK, draw), random_orders(BLOCK, draw)
    copies = [field.clone() for field in state.aircraft.motion]
    decide = Kernel(params).bound(state, action, observe=True)
    first = [*decide().state.missiles.motion, decide().rows]
    kept = [field.clone() for field in first]
    assert all(torch.equal(a, b) for a, b in zip(state.aircraft.motion, copies, strict=True))
    assert all(
        torch.equal(a, b)
        for a, b in zip(kept, [*decide().state.missiles.motion, decide().rows], strict=True)
    )
    expected, _ = advance(params, state, action)
    assert torch.equal(decide().state.aircraft.rounds, expected.aircraft.rounds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [{"model": "legacy"}, {"team_size": 2}, {"channels": 2}, {"decision_s": 0.25, "tick_s": 0.25}],
)
def test_a_fight_the_kernel_is_not_written_for_is_refused(change):
    with pytest.raises(
        SystemExit, match=r"change conf/env/combat.yaml or scripts/kernels/combat.c$"
    ):
        Kernel(shipped_params()._replace(**change))


@pytest.mark.slow
def test_without_gcc_there_is_one_plain_sentence(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit, match=r"^gcc is not installed; .*install gcc$"):
        Kernel(shipped_params())


@pytest.mark.slow
@needs_gcc
def test_a_size_that_is_not_whole_blocks_is_refused():
    params, draw = shipped_params(), torch.Generator().manual_seed(3)
    state, action = random_opening(params, BLOCK + 1, draw), random_orders(BLOCK + 1, draw)
    with pytest.raises(SystemExit, match="change --sizes"):
        Kernel(params).bound(state, action, observe=False)


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("num_envs", [1024, 4096])
def test_the_compiled_simulator_is_within_five_times_the_kernel(num_envs):
    params = shipped_params()
    times_us = measure(Kernel(params), params, num_envs, repeats=15)
    assert times_us["kernel"] / times_us["compiled"] >= 0.2, times_us
