"""The simulator of Alice and Bob: agents on a walled grid; collecting a diamond needs a mate on a button.

Rows and columns 1 .. size are free, around them is a wall. Button j lies opposite to diamond j: while one
agent stands on the button, another that stands on the diamond collects it, for good. The team has won when
both diamonds are collected. Agents do not collide. The env axis N is last everywhere.

The content of a cell is a code: 0 free, 1 wall, then one for each agent, the two buttons, the two diamonds.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.config.checks import require_whole
from navrl.envs.core import random
from navrl.envs.core.reductions import any_row

# A configuration may name these.
__all__ = ["GridParams"]

MOVES = 5  # an action: east, west, north, south, stay
DIAMONDS = 2
_EAST, _WEST, _NORTH, _SOUTH = range(4)
_FREE, _WALL, _FIRST_AGENT = range(3)
MAX_AGENTS, MAX_SIZE, MAX_HORIZON = 8, 64, 1_000_000


class GridParams(NamedTuple):
    """Python numbers, so a compiled step folds them in."""

    num_agents: int
    size: int  # free cells along a side
    horizon: int  # steps after which an episode is cut

    @property
    def buttons(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return row and column of each."""
        return (1, self.size), (1, 1)

    @property
    def diamonds(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return row and column of each."""
        return (self.size, 1), (self.size, self.size)

    @property
    def num_codes(self) -> int:
        """Return the number of different contents of a cell."""
        return _FIRST_AGENT + self.num_agents + 2 * DIAMONDS

    def checked(self) -> "GridParams":
        """Return the same constants; raise ConfigError about the first one that cannot be."""
        require_whole("env.sim.num_agents", self.num_agents, 2, MAX_AGENTS)
        least = 2 if self.num_agents <= 2**2 else 3  # every agent begins on a cell of its own
        require_whole("env.sim.size", self.size, least, MAX_SIZE)
        require_whole("env.sim.horizon", self.horizon, 1, MAX_HORIZON)
        return self


class GridState(NamedTuple):
    """Places of the agents, and the collected diamonds."""

    row: Tensor  # (A, N) int32
    column: Tensor  # (A, N) int32
    collected: Tensor  # (2, N) bool
    step: Tensor  # (N,) int32


class Events(NamedTuple):
    """Events of a step."""

    gained: Tensor  # (2, N) bool, diamonds collected in this step


def initial_state(params: GridParams, key: Tensor) -> GridState:
    """Place every agent on a free cell of its own, all arrangements equally likely."""
    cells = params.size**2
    chosen: list[Tensor] = []
    taken: list[Tensor] = []  # the same in ascending order
    for number, draw in enumerate(random.uniform(key, random.SCENARIO, params.num_agents)):
        left = cells - number
        cell = (draw * left).to(torch.int32).clamp_max(left - 1)
        for other in taken:  # the cell-th of those that are left
            cell = cell + (cell >= other).to(torch.int32)
        chosen.append(cell)
        taken = _inserted(taken, cell)
    cell = torch.stack(chosen)
    return GridState(
        row=1 + torch.div(cell, params.size, rounding_mode="floor"),
        column=1 + torch.remainder(cell, params.size),
        collected=torch.zeros(DIAMONDS, key.shape[0], dtype=torch.bool, device=key.device),
        step=torch.zeros_like(key, dtype=torch.int32),
    )


def advance(params: GridParams, state: GridState, action: Tensor) -> tuple[GridState, Events]:
    """Move agents by their actions (A, N), unless into a wall; then collect diamonds."""
    east, south = action == _EAST, action == _SOUTH
    column = state.column + east.to(torch.int32) - (action == _WEST).to(torch.int32)
    row = state.row + south.to(torch.int32) - (action == _NORTH).to(torch.int32)
    row, column = row.clamp(1, params.size), column.clamp(1, params.size)
    open_to_all = torch.stack(
        [
            any_row(_at(row, column, button)) & any_row(_at(row, column, diamond))
            for button, diamond in zip(params.buttons, params.diamonds, strict=True)
        ]
    )
    gained = open_to_all & ~state.collected
    after = GridState(row, column, state.collected | gained, state.step + 1)
    return after, Events(gained)


def won(state: GridState) -> Tensor:
    """Return True where both diamonds are collected, bool (N,)."""
    first, second = state.collected
    return first & second


def codes_at(params: GridParams, state: GridState, row: Tensor, column: Tensor) -> Tensor:
    """Return the codes of cells at row and column (K, N) or (K, 1), int32 (K, N), last agents on top."""
    inside = (row >= 1) & (row <= params.size) & (column >= 1) & (column <= params.size)
    code = torch.where(inside, _FREE, _WALL).to(torch.int32)
    below = _FIRST_AGENT + params.num_agents
    for number, place in enumerate(params.buttons):
        code = torch.where(_at(row, column, place), below + number, code)
    for number, place in enumerate(params.diamonds):
        there = _at(row, column, place) & ~state.collected[number]
        code = torch.where(there, below + DIAMONDS + number, code)
    for number in range(params.num_agents):
        there = (row == state.row[number]) & (column == state.column[number])
        code = torch.where(there, _FIRST_AGENT + number, code)
    return code


def window(params: GridParams, state: GridState, me: int) -> Tensor:
    """Return the codes of the nine cells around agent `me`, row by row, int32 (9, N)."""
    step = torch.arange(-1, 2, dtype=torch.int32, device=state.row.device)
    row = state.row[me] + step.repeat_interleave(3).unsqueeze(-1)
    column = state.column[me] + step.repeat(3).unsqueeze(-1)
    return codes_at(params, state, row, column)


def everything(params: GridParams, state: GridState) -> Tensor:
    """Return the codes of all cells and the wall, row by row, int32 ((size + 2)^2, N)."""
    side = params.size + 2
    place = torch.arange(side, dtype=torch.int32, device=state.row.device)
    row, column = place.repeat_interleave(side).unsqueeze(-1), place.repeat(side).unsqueeze(-1)
    return codes_at(params, state, row, column)


def _at(row: Tensor, column: Tensor, place: tuple[int, int]) -> Tensor:
    return (row == place[0]) & (column == place[1])


def _inserted(ascending: list[Tensor], value: Tensor) -> list[Tensor]:
    """Return the ascending list with one more value."""
    found = []
    for other in ascending:
        found.append(torch.minimum(other, value))
        value = torch.maximum(other, value)
    return [*found, value]
