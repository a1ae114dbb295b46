"""Layers by oneDNN are the layers of torch, with their gradients; elsewhere they are torch's own."""

import shutil
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from navrl.agents.fast import products
from navrl.agents.fast.products import Linear

ROWS = {
    "plain": lambda: torch.randn(37, 24),
    "agents": lambda: torch.randn(5, 3, 24),
    "one": lambda: torch.randn(24),
    "columns": lambda: torch.randn(24, 37).t(),
    "every other": lambda: torch.randn(74, 24)[::2],
    "repeated": lambda: torch.randn(1, 24).expand(9, 24),
    "none": lambda: torch.randn(0, 24),
}


@pytest.fixture(autouse=True)
def by_onednn(monkeypatch):
    """On any CPU that has it."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(products, "BY_ONEDNN", True)


def exact(layer, rows, upstream):
    """Outputs and gradients in float64, of the formula."""
    rows, weight = (x.detach().double().requires_grad_() for x in (rows, layer.weight))
    out = rows @ weight.t()
    bias = None
    if layer.bias is not None:
        bias = layer.bias.detach().double().requires_grad_()
        out = out + bias
    wanted = [x for x in (rows, weight, bias) if x is not None]
    return out, torch.autograd.grad(out, wanted, upstream.double())


@pytest.mark.parametrize("outputs", [1, 16, 40])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ROWS)
def test_outputs_and_gradients_are_those_of_the_formula(kind, bias, outputs):
    torch.manual_seed(0)
    layer, rows = Linear(24, outputs, bias=bias), ROWS[kind]().requires_grad_()
    found = layer(rows)
    upstream = torch.randn_like(found)
    gradients = torch.autograd.grad(found, [rows, *layer.parameters()], upstream)
    wanted, wanted_gradients = exact(layer, rows, upstream)
    assert found.dtype == torch.float32
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted.float(), rtol=1e-5, atol=1e-5)
    for one, other in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(one, other.float(), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("kind", ROWS)
def test_the_operator_passes_the_checks_of_torch(kind):
    if kind == "none":
        pytest.skip("layers leave no rows to torch")
    weight, bias = torch.randn(8, 24, requires_grad=True), torch.randn(8, requires_grad=True)
    arguments = (ROWS[kind]().requires_grad_(), weight, bias)
    torch.library.opcheck(torch.ops.navrl.product.default, arguments)


def test_gradients_come_from_sums_and_biases_from_views():
    torch.manual_seed(0)
    layer, rows = Linear(24, 8), torch.randn(37, 24)
    layer.bias = torch.nn.Parameter(torch.randn(16)[::2])
    out, wanted = exact(layer, rows, torch.ones(37, 8))
    torch.testing.assert_close(layer(rows), out.float(), rtol=1e-5, atol=1e-5)
    layer(rows).sum().backward()  # whose gradient is one number, repeated
    torch.testing.assert_close(layer.weight.grad, wanted[1].float(), rtol=1e-5, atol=2e-5)


@pytest.mark.commands
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_compiled_step_makes_the_gradients_of_an_eager_one(outputs):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(Linear(24, 32), torch.nn.ReLU(), Linear(32, outputs))
    rows, parameters = torch.randn(64, 24), list(layers.parameters())

    def gradients(rows):
        return torch.autograd.grad(layers(rows).square().mean(), parameters)

    with torch._dynamo.config.patch(trace_autograd_ops=True):
        compiled = torch.compile(gradients, fullgraph=True, dynamic=False)(rows)
    for one, other in zip(compiled, gradients(rows), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


def test_rows_in_double_precision_and_bf16_go_to_torch(monkeypatch):
    def never(*_):
        raise AssertionError("by oneDNN's float32")

    monkeypatch.setattr(torch.ops.navrl.product, "default", never)
    layer, rows = Linear(24, 8), torch.randn(5, 24)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(rows).dtype == torch.bfloat16
    assert layer.double()(rows.double()).dtype == torch.float64
    monkeypatch.setattr(products, "BY_ONEDNN", False)
    layer = layer.float()
    assert torch.equal(layer(rows), functional.linear(rows, layer.weight, layer.bias))
    monkeypatch.setattr(products, "BY_ONEDNN", True)
    with pytest.raises(AssertionError, match="oneDNN"):
        layer(rows)


@pytest.mark.parametrize("few", [False, True])
def test_products_of_few_rows_are_torch_s_own(monkeypatch, few):
    layer, rows, calls = Linear(24, 8), torch.randn(2, 24), []
    by_onednn = torch.ops.navrl.product.default
    counted = SimpleNamespace(default=lambda *args: calls.append(1) or by_onednn(*args))
    monkeypatch.setattr(torch.ops.navrl, "product", counted)
    with products.for_few_rows(few):
        found = layer(rows)
    layer(rows)
    assert len(calls) == 2 - few
    torch.testing.assert_close(found, rows @ layer.weight.t() + layer.bias)
