"""The env of Alice and Bob: agents are the group "agents", reward and flags are the team's."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from navrl.envs.alice_and_bob.observations import GridObservation
from navrl.envs.alice_and_bob.sim import (
    MOVES,
    Events,
    GridParams,
    GridState,
    advance,
    initial_state,
    won,
)
from navrl.envs.core import specs
from navrl.envs.core.env import BatchedEnv
from navrl.envs.core.reductions import any_row
from navrl.envs.core.shapes import Circle, Line, Polygon, Shape, Text

# Of the picture, in cells; tones are numbers of colours.
_SQUARE = ((-0.36, -0.36), (0.36, -0.36), (0.36, 0.36), (-0.36, 0.36))
_LOZENGE = ((-0.38, 0.0), (0.0, -0.38), (0.38, 0.0), (0.0, 0.38))
_BUTTON_TONE, _AGENT_TONES = 3, (0, 1, 4, 5, 6, 7, 8, 9)  # 2 is that of goals


class AliceAndBobEnv(BatchedEnv):
    """Agents on a grid that step east, west, north or south, or stay."""

    params: GridParams
    _observation: GridObservation
    action = specs.Choices(MOVES)

    @property
    def column_names(self) -> dict[str, Sequence[str]]:
        """Return what an action means; cells of the view are rows from the north-west on."""
        return {"action": ["0 east, 1 west, 2 north, 3 south, 4 stay"]}

    statistic_names = rate_names = ("success", "diamond_0", "diamond_1")

    def initial(self, key: Tensor) -> GridState:
        """Return the agents on random cells, with nothing collected."""
        return initial_state(self.params, key)

    def advance(self, state: GridState, action: Tensor) -> tuple[GridState, Events]:
        """Move all agents by one step."""
        return advance(self.params, state, action.squeeze(1))

    def observe(self, state: GridState) -> dict[str, Tensor]:
        """Return the observation of every agent, and all cells for a centralised critic."""
        team = range(self.params.num_agents)
        views = [self._observation.rows(self.params, state, me) for me in team]
        leaves = {
            f"agents/observation/{leaf}": torch.stack([rows[leaf] for rows in views])
            for leaf in self._observation.leaves
        }
        return leaves | {"state": self._observation.state_rows(self.params, state)}

    def judge(self, state: GridState) -> tuple[Tensor, Tensor]:
        """Terminate with both diamonds collected; truncate at the horizon."""
        return won(state), state.step >= self.params.horizon

    def statistics(self, state: GridState) -> list[Tensor]:
        """Return success and the two diamonds, 0 or 1 each."""
        return [won(state).float(), *state.collected.float()]

    def draw(self, state: GridState) -> list[Shape]:
        """Return the cells, the agents, and the diamonds that are left; north is up."""
        size, agents = self.params.size, range(self.params.num_agents)
        across = [(0.0, float(at)) for at in range(size + 1)]
        along = [(float(size), float(at)) for at in range(size + 1)]
        upright = [[(y, x) for x, y in places] for places in (across, along)]
        # Agents may share a cell: each has a side of its own in it.
        offset = torch.tensor([[0.15 if number % 2 else -0.15] for number in agents])
        place = torch.stack(_middle(size, state.row, state.column)) + offset.to(state.row.device)
        letters = [chr(ord("A") + number) for number in agents]
        tones = [_AGENT_TONES[number] for number in agents]
        return [
            Line([across, along]),
            Line(upright),
            *self._draw_pair(state, 0, "button", "diamond"),
            *self._draw_pair(state, 1),
            Circle(place, 0.24, colour=tones, trail=True),
            Text(place, letters),
        ]

    def _draw_pair(
        self, state: GridState, number: int, button: str = "", diamond: str = ""
    ) -> list[Shape]:
        """Return a button, and the diamond that can be collected while it is pressed."""
        row, column = self.params.buttons[number]
        pressed = any_row((state.row == row) & (state.column == column))
        here = _middle(self.params.size, row, column)
        there = _middle(self.params.size, *self.params.diamonds[number])
        left = ~state.collected[number]
        return [
            Line([here, there], colour="goal", visible=pressed & left),
            Polygon(_corners(here, _SQUARE), colour=_BUTTON_TONE, filled=False, label=button),
            Polygon(_corners(here, _SQUARE), colour=_BUTTON_TONE, visible=pressed),
            Polygon(_corners(there, _LOZENGE), colour="quiet", filled=False),
            Polygon(_corners(there, _LOZENGE), colour="goal", visible=left, label=diamond),
        ]


def _middle(size: int, row: Any, column: Any) -> tuple[Any, Any]:
    """Return x and y of the middle of a cell."""
    return column - 0.5, size + 0.5 - row


def _corners(
    middle: tuple[float, float], around: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    return [(middle[0] + x, middle[1] + y) for x, y in around]
