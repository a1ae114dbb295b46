"""The yardstick of air combat: a C kernel that must play the same fight."""

import shutil

import pytest

from bench_simulator import measure, shipped_params
from kernels.combat import BLOCK, Kernel, check_agreement

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="the kernel needs gcc")


@needs_gcc
def test_the_kernel_is_the_simulator_in_decisions_with_launches_and_hits():
    params = shipped_params()
    seen = check_agreement(Kernel(params), params, decisions=50)
    assert seen["decisions"] == 50 * 4 * BLOCK
    assert seen["hit"] > 50


@pytest.mark.slow
def test_without_gcc_there_is_one_plain_sentence(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit, match=r"^gcc is not installed; .*install gcc$"):
        Kernel(shipped_params())


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("num_envs", [1024, 4096])
def test_the_compiled_simulator_is_within_five_times_the_kernel(num_envs):
    params = shipped_params()
    times_us = measure(Kernel(params), params, num_envs, repeats=15)
    assert times_us["kernel"] / times_us["compiled"] >= 0.2, times_us
