"""What Alice and Bob are told: the cells around them and where they are, as numbers or as flags.

Nobody is told of the mates or of what is collected unless it shows on the nine cells. A centralised critic
is told of all cells.
"""

from typing import Protocol

import torch
from torch import Tensor

from navrl.envs.alice_and_bob.sim import GridParams, GridState, everything, window

READS = GridParams  # the constants that these observations need

_WINDOW = 9


class GridObservation(Protocol):
    """One kind of observation: leaves (features, N) for each agent, and the state for a critic."""

    leaves: dict[str, tuple[int, ...]]
    state_size: int

    def prepare(self, params: GridParams, device: torch.device | str) -> None:
        """Settle the shapes; once, before the first rows."""

    def rows(self, params: GridParams, state: GridState, me: int) -> dict[str, Tensor]:
        """What agent `me` is told."""

    def state_rows(self, params: GridParams, state: GridState) -> Tensor:
        """What a centralised critic is told, (state_size, N)."""


class Codes:
    """Cells as their codes, then row and column: 11 numbers."""

    def __init__(self) -> None:
        self.leaves: dict[str, tuple[int, ...]] = {}
        self.state_size = 0

    def prepare(self, params: GridParams, device: torch.device | str) -> None:
        """Settle the shapes."""
        self.leaves = {"view": (_WINDOW + 2,)}
        self.state_size = (params.size + 2) ** 2

    def rows(self, params: GridParams, state: GridState, me: int) -> dict[str, Tensor]:
        """The leaf view."""
        place = torch.stack([state.row[me], state.column[me]])
        return {"view": torch.cat([window(params, state, me), place]).float()}

    def state_rows(self, params: GridParams, state: GridState) -> Tensor:
        """The codes of all cells."""
        return everything(params, state).float()


class OneHot:
    """For each cell a flag per code, then row and column."""

    def __init__(self) -> None:
        self.leaves: dict[str, tuple[int, ...]] = {}
        self.state_size = 0

    def prepare(self, params: GridParams, device: torch.device | str) -> None:
        """Settle the shapes."""
        self.leaves = {"view": (params.num_codes * _WINDOW + 2,)}
        self.state_size = params.num_codes * (params.size + 2) ** 2

    def rows(self, params: GridParams, state: GridState, me: int) -> dict[str, Tensor]:
        """The leaf view."""
        place = torch.stack([state.row[me], state.column[me]]).float()
        return {"view": torch.cat([_flags(params, window(params, state, me)), place])}

    def state_rows(self, params: GridParams, state: GridState) -> Tensor:
        """The flags of all cells."""
        return _flags(params, everything(params, state))


def _flags(params: GridParams, codes: Tensor) -> Tensor:
    """(K, N) to (K * num_codes, N)."""
    every = torch.arange(params.num_codes, dtype=codes.dtype, device=codes.device)
    return (codes.unsqueeze(1) == every.unsqueeze(-1)).flatten(0, 1).float()
