"""What a GPU would do in one iteration rises by no accident: kernels, bytes, host reads, graph breaks."""

import functools

import pytest

from tests.collectors import cuda_kernels
from tests.collectors.cuda_audit import audited

pytestmark = pytest.mark.commands

# Kernels and megabytes, of collection and of the update, with the shipped options: what was counted when they
# were written, and 2 % for other versions of Inductor. A launch is 3 us: a thousand more kernels are 3 ms of
# an iteration. Who raises a number says in the commit what it buys.
BUDGETS = {
    "env=combat agent=ppo": ((1_807, 455), (11_325, 8_125)),
    "env=alice_and_bob agent=ippo": ((911, 378), (3_619, 13_050)),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("world", BUDGETS)
def test_an_iteration_keeps_its_budget(world):
    # A graph break would be an error: every function is compiled as one graph.
    found = audited(functools.partial(cuda_kernels.iteration, world.split()), timeout_s=840.0)
    assert len(found["graphs"]) >= 2
    assert (found["collection"]["reads"], found["update"]["reads"]) == (0, 1)
    for part, (kernels, megabytes) in zip(("collection", "update"), BUDGETS[world], strict=True):
        assert found[part]["kernels"] <= kernels * 1.02
        assert found[part]["bytes"] / 1e6 <= megabytes * 1.02


def test_a_chain_of_pointwise_operators_is_one_kernel_and_a_product_another():
    found = audited(_chain)
    # Two inputs of 4 MiB are read and 8 bytes an element of float64 written; then 2 x 1024^3 flops on 12 MiB.
    assert found["pointwise"] == [1, 2 * 4 * 1024**2 + 8 * 1024**2, 0]
    assert found["product"] == [1, 3 * 4 * 1024**2, 2 * 1024**3]


def _chain() -> dict:
    import torch

    from navrl.envs.core.compiling import Compiled
    from tests.collectors.cuda_audit import register_guard

    register_guard()
    a, b = torch.zeros(2, 1024, 1024)
    chain = Compiled(lambda x, y: ((x + y).sin() * 3.0).double(), "on")
    product = Compiled(lambda x, y: x @ y, "on")
    with cuda_kernels.lowering_for_cuda():
        return {
            name: list(cuda_kernels.kernels_of(function, (a, b))[:3])
            for name, function in {"pointwise": chain, "product": product}.items()
        }
