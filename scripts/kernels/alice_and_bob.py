"""The kernel of alice_and_bob.c: compiled by gcc, called on the simulator's tensors."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from kernels import Bound, compiled
from navrl.envs.alice_and_bob.sim import GridParams, GridState

KERNEL = Path(__file__).with_name("alice_and_bob.c")
VIEW = 11  # numbers in an agent's observation


class Outcome(NamedTuple):
    """The tensors that one call of the kernel fills."""

    state: GridState
    gained: Tensor  # bool (2, N)
    views: Tensor  # (A, VIEW, N)
    everything: Tensor  # (cells, N)


class GridKernel:
    """scripts/kernels/alice_and_bob.c, compiled for these rules."""

    def __init__(self, params: GridParams) -> None:
        self._params = params
        macros = {"AGENTS": params.num_agents, "SIZE": params.size}
        self._step = compiled(KERNEL, macros).step

    def bound(self, state: GridState, action: Tensor) -> Bound[Outcome]:
        """Return a call for one step from this state with actions int32 (A, N)."""
        num_agents, num_envs = state.row.shape
        cells = (self._params.size + 2) ** 2
        outcome = Outcome(
            GridState(*(torch.empty_like(field) for field in state)),
            torch.empty_like(state.collected),
            torch.empty(num_agents, VIEW, num_envs),
            torch.empty(cells, num_envs),
        )
        rest = (outcome.gained, outcome.views, outcome.everything)
        return Bound(self._step, outcome, state, action, outcome.state, *rest, num_envs)
