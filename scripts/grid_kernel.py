"""The kernel of grid_kernel.c: compiled by gcc, called on the simulator's tensors."""

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.sims.grid import GridParams, GridState

KERNEL = Path(__file__).with_name("grid_kernel.c")
VIEW = 11  # numbers that an agent is told


class Outcome(NamedTuple):
    """What one call of the kernel fills."""

    state: GridState
    gained: Tensor  # bool (2, N)
    views: Tensor  # (A, VIEW, N)
    everything: Tensor  # (cells, N)


class GridKernel:
    """scripts/grid_kernel.c, compiled for these rules."""

    def __init__(self, params: GridParams) -> None:
        self._params = params
        macros = [f"-DAGENTS={params.num_agents}", f"-DSIZE={params.size}"]
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "grid_kernel.so"
            command = ["gcc", "-O3", "-march=native", "-shared", "-fPIC", *macros]
            try:
                subprocess.run([*command, str(KERNEL), "-o", str(library)], check=True)
            except FileNotFoundError:
                raise SystemExit(
                    "gcc is not installed; the yardstick is a C kernel: install gcc"
                ) from None
            self._step = ctypes.CDLL(str(library)).step

    def bound(self, state: GridState, action: Tensor) -> "Bound":
        """One step from this state with actions int32 (A, N), ready to be called."""
        num_agents, num_envs = state.row.shape
        cells = (self._params.size + 2) ** 2
        outcome = Outcome(
            GridState(*(torch.empty_like(field) for field in state)),
            torch.empty_like(state.collected),
            torch.empty(num_agents, VIEW, num_envs),
            torch.empty(cells, num_envs),
        )
        return Bound(self._step, state, action, outcome)


class Bound:
    """One call of the kernel; each overwrites the outcome of the one before."""

    def __init__(
        self, function: ctypes._CFuncPtr, state: GridState, action: Tensor, outcome: Outcome
    ) -> None:
        self._inputs, self._outcome, self._function = (state, action), outcome, function
        rest = (outcome.gained, outcome.views, outcome.everything)
        self._arguments = [
            _pointers(state),
            ctypes.c_void_p(action.data_ptr()),
            _pointers(outcome.state),
            *(ctypes.c_void_p(tensor.data_ptr()) for tensor in rest),
            ctypes.c_long(state.step.shape[0]),
        ]

    def __call__(self) -> Outcome:
        """What the kernel makes of the inputs."""
        self._function(*self._arguments)
        return self._outcome


def _pointers(state: GridState) -> ctypes.Array:
    assert all(field.is_contiguous() for field in state)
    return (ctypes.c_void_p * len(state))(*[field.data_ptr() for field in state])
