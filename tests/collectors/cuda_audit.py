"""Runs code on fake CUDA tensors and writes down every host synchronisation and device crossing.

No GPU is needed: FakeTensorMode carries shapes and devices only. What would block the host is
answered with a dummy and recorded together with the line that caused it. It proves that nothing
waits and nothing mixes devices; it says nothing about numbers or speed.
"""

import ctypes
import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.command_line import Started

DEVICE = "cuda:0"  # TensorDict asks the driver about a bare "cuda"
_CUDA_GUARD, _META_GUARD = 1, 14  # places of c10::DeviceType
aten = torch.ops.aten


class UnavailableError(RuntimeError):
    """This torch hides what the audit is built on."""


def register_guard() -> None:
    """Give CUDA the no-op device guard of the meta device, so that a CPU build can index."""
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
    symbol = "_ZN3c104impl26device_guard_impl_registryE"
    try:
        registry = (ctypes.c_void_p * (_META_GUARD + 1)).in_dll(library, symbol)
    except ValueError as error:
        raise UnavailableError(f"libc10.so has no symbol {symbol}") from error
    if not registry[_CUDA_GUARD]:
        registry[_CUDA_GUARD] = registry[_META_GUARD]


class Audit(TorchDispatchMode):
    """Counts what would make a CUDA program wait."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []
        self.operations: set[str] = set()
        self.truth = True  # what a boolean on the device is taken for

    def clear(self) -> None:
        """Forget what was seen so far."""
        self.events, self.operations = [], set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        packet = func.overloadpacket
        self.operations.add(packet.__name__)
        if packet is aten._local_scalar_dense:
            self.record("sync: item")
            return self._dummy(args[0].dtype)
        if packet in (aten.allclose, aten.equal, aten.is_nonzero):
            self.record(f"sync: {packet}")
            return packet is not aten.is_nonzero
        if packet in (aten.nonzero, aten.masked_select):
            self.record(f"sync: {packet}")
            return _no_rows(packet, args[0])
        if packet in (aten.index, aten.index_put_, aten.index_put):
            args = self._indexed(args)
        result = func(*args, **kwargs)
        self._crossing(packet, args, result)
        return result

    def _indexed(self, args):
        """Boolean masks synchronise, indices on the host are copied."""
        tensor, indices, *rest = args
        plain = []
        for index in indices:
            if index is not None and index.dtype in (torch.bool, torch.uint8):
                self.record("sync: index by a boolean mask")
                plain.append(torch.zeros(1, dtype=torch.int64, device=tensor.device))
                continue
            if index is not None and index.device != tensor.device:
                self.record(f"copy: index {index.device.type} -> {tensor.device.type}")
            plain.append(index)
        return (tensor, plain, *rest)

    def _crossing(self, packet, args, result) -> None:
        if packet not in (aten._to_copy, aten.copy_):
            return
        source = args[1] if packet is aten.copy_ else args[0]
        if source.device.type != result.device.type:
            self.record(f"copy: {source.device.type} -> {result.device.type}")

    def _dummy(self, dtype: torch.dtype) -> bool | int | float:
        if dtype == torch.bool:
            return self.truth
        return 1.0 if dtype.is_floating_point else 1

    def record(self, what: str) -> None:
        """Write down what happened and the five innermost lines that are not torch's."""
        frames = [
            f"{frame.filename.rpartition('site-packages/')[2]}:{frame.lineno}"
            for frame in traceback.extract_stack()
            if "cuda_audit.py" not in frame.filename and "/torch/" not in frame.filename
        ]
        self.events.append(f"{what} at {' <- '.join(reversed(frames[-5:]))}")


def _no_rows(packet, tensor):
    if packet is aten.nonzero:
        return torch.zeros(0, tensor.ndim, dtype=torch.int64, device=tensor.device)
    return torch.zeros(0, dtype=tensor.dtype, device=tensor.device)


@contextmanager
def audit(parameters: list) -> Iterator[Audit]:
    """Everything inside is fake; what the fakes cannot do is replaced here, not in the code.

    No backward pass runs on fake CUDA: gradients are zeros of the right shape instead.
    """
    register_guard()
    recorder = Audit()

    def backward(total, *_, **__):
        assert total.requires_grad
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)

    def gradients(total, inputs, *_, **__):
        assert total.requires_grad
        return tuple(torch.zeros_like(each) for each in inputs)

    def tolist(tensor):
        recorder.record("read: tolist")
        return [0.0] * tensor.numel()

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch.Tensor, "backward", backward))
        stack.enter_context(mock.patch.object(torch.autograd, "grad", gradients))
        stack.enter_context(mock.patch.object(FakeTensor, "tolist", tolist))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=False))
        stack.enter_context(recorder)
        yield recorder


def audited(program: Callable[[], dict], timeout_s: float = 120.0) -> dict:
    """Return the findings of the program in its own process, because an audit changes its process.

    A skip where this torch cannot be audited.
    """
    root = Path(__file__).parents[2]
    done = Started(functools.partial(_print, program), folder=root).finished(timeout_s)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    if "unavailable" in found:
        pytest.skip(found["unavailable"])
    return found


def _print(program: Callable[[], dict]) -> None:
    try:
        report = program()
    except UnavailableError as reason:
        report = {"unavailable": str(reason)}
    sys.stdout.write(json.dumps(report))
