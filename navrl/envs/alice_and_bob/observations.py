"""Observations of Alice and Bob: the cells around an agent and its place, as codes or as flags.

An agent observes its mates and the collected diamonds only within its nine cells. A centralised critic
observes all cells.
"""

from typing import Protocol

import torch
from torch import Tensor

from navrl.envs.alice_and_bob.sim import GridParams, GridState, everything, window

# A configuration may name these.
__all__ = ["Codes", "OneHot"]

READS = GridParams  # the constants that these observations need

_WINDOW = 9


class GridObservation(Protocol):
    """A layout of observations: leaves (features, N) for each agent, and the state for a critic."""

    leaves: dict[str, tuple[int, ...]]
    state_size: int

    def prepare(self, params: GridParams, device: torch.device | str) -> None:
        """Determine the shapes; called once, before the first rows."""

    def rows(self, params: GridParams, state: GridState, me: int) -> dict[str, Tensor]:
        """Return the observation of agent `me`."""

    def state_rows(self, params: GridParams, state: GridState) -> Tensor:
        """Return the state for a centralised critic, (state_size, N)."""


class Codes:
    """Cells as their codes, then row and column: 11 numbers."""

    leaves: dict[str, tuple[int, ...]]
    state_size: int

    def prepare(self, params: GridParams, device: torch.device | str) -> None:
        """Determine the shapes."""
        self.leaves = {"view": (_WINDOW + 2,)}
        self.state_size = (params.size + 2) ** 2

    def rows(self, params: GridParams, state: GridState, me: int) -> dict[str, Tensor]:
        """Return the leaf view."""
        place = torch.stack([state.row[me], state.column[me]])
        return {"view": torch.cat([window(params, state, me), place]).float()}

    def state_rows(self, params: GridParams, state: GridState) -> Tensor:
        """Return the codes of all cells."""
        return everything(params, state).float()


class OneHot:
    """Cells as one flag per code, then row and column."""

    leaves: dict[str, tuple[int, ...]]
    state_size: int

    def prepare(self, params: GridParams, device: torch.device | str) -> None:
        """Determine the shapes."""
        self.leaves = {"view": (params.num_codes * _WINDOW + 2,)}
        self.state_size = params.num_codes * (params.size + 2) ** 2

    def rows(self, params: GridParams, state: GridState, me: int) -> dict[str, Tensor]:
        """Return the leaf view."""
        place = torch.stack([state.row[me], state.column[me]]).float()
        return {"view": torch.cat([_flags(params, window(params, state, me)), place])}

    def state_rows(self, params: GridParams, state: GridState) -> Tensor:
        """Return the flags of all cells."""
        return _flags(params, everything(params, state))


def _flags(params: GridParams, codes: Tensor) -> Tensor:
    """Encode codes (K, N) as flags (K * num_codes, N)."""
    every = torch.arange(params.num_codes, dtype=codes.dtype, device=codes.device)
    return (codes.unsqueeze(1) == every.unsqueeze(-1)).flatten(0, 1).float()
