"""Simulators in C as yardsticks: compile them with gcc and call them on tensors."""

import ctypes
import platform
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import Tensor

Outcome = TypeVar("Outcome")
FAST = ("-ffast-math", "-fopenmp-simd")  # for kernels that calculate with real numbers
if platform.machine() == "x86_64":
    FAST = (*FAST, "-mprefer-vector-width=512")  # gcc 12 takes half of AVX-512 by itself


def compiled(source: Path, macros: Mapping[str, float], flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Return the library of this source, with every constant as a macro that gcc folds in."""
    command = ["gcc", "-O3", "-march=native", *flags, "-shared", "-fPIC"]
    command.append("-nostartfiles")  # where gcc 12 sets all of Python to flush its smallest numbers
    command += [f"-D{name}={_literal(value)}" for name, value in macros.items()]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / f"{source.stem}.so"
        try:
            subprocess.run([*command, str(source), "-o", str(library), "-lm"], check=True)
        except FileNotFoundError:
            raise SystemExit(
                "gcc is not installed; the yardstick is a C kernel: install gcc"
            ) from None
        return ctypes.CDLL(str(library))


def _literal(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{float(value)!r}f"


class Bound(Generic[Outcome]):
    """A call of a kernel with fixed arguments; each call overwrites the outcome of the one before.

    An argument is a tensor, a number, or tensors, which become an array of pointers: a struct of them.
    """

    def __init__(self, function: Any, outcome: Outcome, *arguments: Any) -> None:
        self._kept = arguments  # pointers keep nothing alive
        self._function, self._outcome = function, outcome
        self._arguments = [_argument(value) for value in arguments]

    def __call__(self) -> Outcome:
        """Run the kernel and return its outcome."""
        self._function(*self._arguments)
        return self._outcome


def _argument(value: Any) -> Any:
    if isinstance(value, int):
        return ctypes.c_long(value)
    if isinstance(value, Tensor):
        return ctypes.c_void_p(_address(value))
    return (ctypes.c_void_p * len(value))(*[_address(tensor) for tensor in value])


def _address(tensor: Tensor) -> int:
    assert tensor.is_contiguous()
    return tensor.data_ptr()
