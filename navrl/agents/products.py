"""Matrix products of layers in float32: by oneDNN on CPUs for which torch's own library is not made.

On a CPU torch multiplies float32 with MKL, which takes AVX-512 from Intel's CPUs alone. On others that have
it oneDNN, which torch brings along and takes for bf16 anyway, is twice as fast. It is an operator of our own,
because torch has its call without a gradient, and Inductor only for weights that never change.
"""

from typing import Any

import torch
from torch import Tensor, nn


def _by_onednn() -> bool:
    """Is this a CPU whose AVX-512 MKL leaves alone?"""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    cpu = torch.cpu.get_capabilities()
    return bool(cpu.get("avx512_f")) and "intel" not in str(cpu.get("cpu_name", "")).lower()


BY_ONEDNN = _by_onednn()


class Linear(nn.Linear):
    """torch's layer, with the fastest product that there is."""

    def forward(self, rows: Tensor) -> Tensor:
        """Rows (..., inputs) to (..., outputs)."""
        plain = rows.dtype == torch.float32 and not torch.is_autocast_enabled(rows.device.type)
        if not (BY_ONEDNN and plain and rows.device.type == "cpu" and rows.numel()):
            return super().forward(rows)
        if self.out_features == 1 and self.bias is not None and torch.compiler.is_compiling():
            # A loop that is fused with those around it, where a call takes longer than its arithmetic.
            return (rows * self.weight[0]).sum(-1, keepdim=True) + self.bias
        return torch.ops.navrl.product.default(rows, self.weight, self.bias)


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise.default(rows, weight, bias, "none", [], "")


def _shape(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return rows.new_empty(*rows.shape[:-1], weight.shape[0])


def _remember(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
    rows, weight, bias = inputs
    ctx.save_for_backward(rows, weight)
    ctx.biased = bias is not None


def _gradients(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
    rows, weight = ctx.saved_tensors
    product = torch.ops.navrl.product.default
    of_rows = product(upstream, weight.t(), None) if ctx.needs_input_grad[0] else None
    upstream, rows = (each.reshape(-1, each.shape[-1]) for each in (upstream, rows))
    # oneDNN is slower on a transposed view of the first; compiled, the copy is made along the way.
    of_weight = product(upstream.t().contiguous(), rows.t(), None)
    return of_rows, of_weight, upstream.sum(0) if ctx.biased else None


_NAME = "navrl::product"
torch.library.define(_NAME, "(Tensor rows, Tensor weight, Tensor? bias) -> Tensor")
torch.library.impl(_NAME, "CPU", _product)
torch.library.register_fake(_NAME, _shape)
torch.library.register_autograd(_NAME, _gradients, setup_context=_remember)
