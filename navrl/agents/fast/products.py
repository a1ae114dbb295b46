"""Matrix products of layers in float32: by oneDNN on CPUs for which torch's own library is not made.

On a CPU torch multiplies float32 with MKL, which takes AVX-512 from Intel's CPUs alone. On others that have
it oneDNN, which torch brings along and takes for bf16 anyway, is twice as fast. It is an operator of our own,
because torch has its call without a gradient, and Inductor only for weights that never change. It has
gradients of the first order. A graph that leaves this process multiplies by torch's own, and so does a
policy with skills that acts for few envs: a call of oneDNN takes 30 us, a product of few rows by torch 3.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def _by_onednn() -> bool:
    """Return whether this CPU has AVX-512 that MKL does not use."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    cpu: dict[str, Any] = {}
    with contextlib.suppress(RuntimeError):  # where the capabilities of the CPU are unknown
        cpu.update(torch.cpu.get_capabilities())
    return bool(cpu.get("avx512_f")) and "intel" not in str(cpu.get("cpu_name", "")).lower()


BY_ONEDNN = _by_onednn()
_few_rows: list[bool] = []  # not empty inside of for_few_rows()


@contextlib.contextmanager
def for_few_rows(few: bool) -> Iterator[None]:
    """Multiply by torch's own while open, if rows are few."""
    if few:
        _few_rows.append(True)
    try:
        yield
    finally:
        if few:
            _few_rows.pop()


class Linear(nn.Linear):
    """A linear layer that multiplies by oneDNN where that is faster than torch's own product."""

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows (..., inputs) to (..., outputs)."""
        return product(rows, self.weight, self.bias)


def product(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Map rows (..., inputs) by a weight (outputs, inputs) and a bias (outputs,) to (..., outputs)."""
    if not BY_ONEDNN or rows.device.type != "cpu" or not _plain(rows, weight):
        return functional.linear(rows, weight, bias)
    if weight.shape[0] == 1 and bias is not None and torch.compiler.is_compiling():
        # A loop that is fused with those around it, where a call takes longer than its arithmetic.
        return (rows * weight[0]).sum(-1, keepdim=True) + bias
    return torch.ops.navrl.product.default(rows, weight, bias)


def _plain(rows: Tensor, weight: Tensor) -> bool:
    """Return whether rows are float32 and of the right size; torch multiplies or refuses all others."""
    return (
        rows.dtype == weight.dtype == torch.float32
        and not torch.compiler.is_exporting()
        and not torch.is_autocast_enabled("cpu")
        and rows.shape[-1] == weight.shape[-1]
        and rows.numel() > 0
        and not _few_rows
    )


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    bias = None if bias is None else bias.contiguous()  # oneDNN ignores strides
    return torch.ops.mkldnn._linear_pointwise.default(rows, weight, bias, "none", [], "")


def _shape(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return rows.new_empty(*rows.shape[:-1], weight.shape[0])


def _save_for_backward(
    ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor
) -> None:
    rows, weight, _ = inputs
    ctx.save_for_backward(rows, weight)


def _gradients(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
    rows, weight = ctx.saved_tensors
    product = torch.ops.navrl.product.default
    for_rows, for_weight, for_bias = ctx.needs_input_grad
    of_rows = product(upstream, weight.t(), None) if for_rows else None
    upstream, rows = (x.reshape(-1, x.shape[-1]) for x in (upstream, rows))
    # oneDNN is slower on a transposed view of the first; compiled, the copy is made along the way.
    of_weight = product(upstream.t().contiguous(), rows.t(), None) if for_weight else None
    return of_rows, of_weight, upstream.sum(0) if for_bias else None


_NAME = "navrl::product"
torch.library.define(_NAME, "(Tensor rows, Tensor weight, Tensor? bias) -> Tensor")
torch.library.impl(_NAME, "CPU", _product)
torch.library.register_fake(_NAME, _shape)
torch.library.register_autograd(_NAME, _gradients, setup_context=_save_for_backward)
